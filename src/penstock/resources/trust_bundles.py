"""Trust bundles: ConfigMaps of the system namespace with authorities that are trusted for destinations, as in Knative.

Programs in Pods do not get them with the routes. So the namespaces of SinkBindings get copies, which their Pods mount:
each bundle as it is, and one file with the certificates of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.kube.kinds import Obj
from penstock.oidc.names import child_name
from penstock.resources.metadata import ObjectIdentity
from penstock.web.certificates import certificates_in

LABEL = "networking.knative.dev/trust-bundle"
SUFFIX = "kne-bundle"
COMBINED = "kn-combined-kne-bundle"
MOST_BYTES = 1_000_000
"""Of the file with all certificates: a ConfigMap holds a MiB."""

_CONTENT = ("data", "binaryData")
_END = "-----END CERTIFICATE-----\n"
_OWNER = {"apiVersion": "sources.knative.dev/v1", "kind": "SinkBinding"}


def is_bundle(obj: Obj) -> bool:
    """Whether the ConfigMap holds authorities."""
    return ((obj.get("metadata") or {}).get("labels") or {}).get(LABEL) == "true"


def bundle_of(data: Mapping[str, str]) -> tuple[str, list[str]]:
    """The certificates in a bundle, and the keys under which there is something else."""
    found, useless = "", list[str]()
    for name in sorted(data):
        certificates, whole = certificates_in(data[name])
        found += "".join(certificates)
        if not whole:
            useless.append(name)
    return found, useless


def combined(certificates: str) -> str:
    """The certificates, as many as one ConfigMap can hold."""
    if len(certificates) <= MOST_BYTES:
        return certificates
    end = certificates.rfind(_END, 0, MOST_BYTES)
    return "" if end < 0 else certificates[: end + len(_END)]


def copies_of(bundles: Iterable[Obj], certificates: str, namespace: str) -> list[Obj]:
    """The ConfigMaps that a namespace should have of these bundles, by name and without owners. `certificates` are
    those of them all. Other labels stay behind: some tools remove whatever has theirs and is unknown to them."""
    copies = {}
    for one in bundles:
        name = child_name(one["metadata"]["name"], SUFFIX)
        copies[name] = _copy(name, namespace, {part: one[part] for part in _CONTENT if one.get(part)})
    if all_of_them := combined(certificates):
        name = child_name(COMBINED, SUFFIX)
        copies[name] = _copy(name, namespace, {"data": {f"{COMBINED}.pem": all_of_them}})
    return [copies[name] for name in sorted(copies)]


def is_copy(obj: Obj) -> bool:
    """Whether the ConfigMap was made for SinkBindings, and not by a user."""
    return is_bundle(obj) and any(_is_binding(one) for one in _owners(obj))


def is_owned_by(obj: Obj, binding: Obj) -> bool:
    """Whether the ConfigMap was made for this SinkBinding, perhaps among others."""
    return any(one.get("uid") == binding["metadata"]["uid"] for one in _owners(obj))


def brought_up_to_date(held: Obj | None, wanted: Obj, binding: Obj) -> Obj:
    """The copy with the wanted content and the SinkBinding among its owners, so that it goes with the last of them; the
    same object if it is so already."""
    if held is None:
        return {**wanted, "metadata": {**wanted["metadata"], "ownerReferences": [_reference(binding)]}}
    same = all((held.get(part) or {}) == (wanted.get(part) or {}) for part in _CONTENT)
    if same and is_owned_by(held, binding):
        return held
    owners = _owners(held) if is_owned_by(held, binding) else [*_owners(held), _reference(binding)]
    changed = {name: value for name, value in {**held, **wanted}.items() if name not in _CONTENT or name in wanted}
    return {**changed, "metadata": {**held["metadata"], "ownerReferences": owners}}


def _copy(name: str, namespace: str, content: Obj) -> Obj:
    metadata = {"name": name, "namespace": namespace, "labels": {LABEL: "true"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}


def _owners(obj: Obj) -> list[dict[str, Any]]:
    return (obj.get("metadata") or {}).get("ownerReferences") or []


def _is_binding(owner: Mapping[str, Any]) -> bool:
    group = str(owner.get("apiVersion")).partition("/")[0]
    return (group, owner.get("kind")) == ("sources.knative.dev", "SinkBinding")


def _reference(binding: Obj) -> dict[str, Any]:
    identity = ObjectIdentity.read(binding)
    return {**_OWNER, "name": identity.name, "uid": identity.uid}
