"""Discovery: the served groups, versions and resources, in the classic and the aggregated form."""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.apiserver.kinds import scale
from penstock.apiserver.kinds.registry import STATUS_VERBS, ServedKind
from penstock.kube.kinds import Obj

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
AGGREGATED = "apidiscovery.k8s.io"
_SUBRESOURCE_KINDS = {"scale": (scale.GROUP, scale.VERSION, scale.KIND)}
"""Subresources that are read and written as another kind than their resource."""


def version_rank(version: str) -> tuple[int, int, int]:
    """Sorts versions as clients prefer them: v2, v1, v1beta2, v1beta1, v1alpha1."""
    found = _VERSION.fullmatch(version)
    if not found:
        return (3, 0, 0)
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return (stage, -int(found[1]), -int(found[3] or 0))


def groups(kinds: Iterable[ServedKind]) -> dict[str, list[str]]:
    """The named groups, each with its versions in order of preference."""
    found: dict[str, set[str]] = {}
    for kind in kinds:
        if kind.group:
            found.setdefault(kind.group, set()).add(kind.version)
    return {group: sorted(versions, key=version_rank) for group, versions in found.items()}


def api_versions(address: str) -> Obj:
    """`/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group(group: str, versions: list[str]) -> Obj:
    """`/apis/<group>`."""
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": listed, "preferredVersion": listed[0]}


def api_groups(kinds: Iterable[ServedKind]) -> Obj:
    """`/apis`."""
    listed = [api_group(group, versions) for group, versions in groups(kinds).items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def resources(kinds: Iterable[ServedKind], group: str, version: str) -> Obj | None:
    """`/api/v1` and `/apis/<group>/<version>`; None if there is no such group version."""
    listed: list[Obj] = []
    for kind in kinds:
        if (kind.group, kind.version) != (group, version):
            continue
        entry: Obj = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        listed.append(entry | _optional_names(kind))
        listed.extend(_subresource(kind, subresource) for subresource in kind.subresources)
    if not listed:
        return None
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _optional_names(kind: ServedKind) -> Obj:
    named = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {field: names for field, names in named.items() if names}


def _subresource(kind: ServedKind, subresource: str) -> Obj:
    return {
        "name": f"{kind.plural}/{subresource}",
        "singularName": "",
        "namespaced": kind.namespaced,
        # Group and version are named only if they differ from those of the resource.
        **(_subresource_kind(kind, subresource) if subresource in _SUBRESOURCE_KINDS else {"kind": kind.kind}),
        "verbs": subresource_verbs(subresource),
    }


def _subresource_kind(kind: ServedKind, subresource: str) -> Obj:
    group, version, name = _SUBRESOURCE_KINDS.get(subresource, (kind.group, kind.version, kind.kind))
    return {"group": group, "version": version, "kind": name}


def aggregated(kinds: Iterable[ServedKind], *, core: bool, version: str) -> Obj:
    """`/api` or `/apis` as one `APIGroupDiscoveryList` of everything."""
    kinds = tuple(kinds)
    order = {"": ["v1"]} if core else groups(kinds)
    items = [
        {
            "metadata": {"name": group, "creationTimestamp": None},
            "versions": [
                {
                    "version": one,
                    "freshness": "Current",
                    "resources": [_entry(kind) for kind in kinds if (kind.group, kind.version) == (group, one)],
                }
                for one in versions
            ],
        }
        for group, versions in order.items()
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": f"{AGGREGATED}/{version}", "metadata": {}, "items": items}


def _entry(kind: ServedKind) -> Obj:
    named = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    entry: Obj = {
        "resource": kind.plural,
        "responseKind": named,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    entry |= _optional_names(kind)
    if kind.subresources:
        entry["subresources"] = [
            {
                "subresource": subresource,
                "responseKind": _subresource_kind(kind, subresource),
                "verbs": subresource_verbs(subresource),
            }
            for subresource in kind.subresources
        ]
    return entry


def subresource_verbs(subresource: str) -> list[str]:
    """The verbs of a subresource."""
    return {"log": ["get"], "finalize": ["update"], "token": ["create"]}.get(subresource, list(STATUS_VERBS))
