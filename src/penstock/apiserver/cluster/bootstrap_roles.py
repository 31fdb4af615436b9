"""The roles and bindings that exist from the start, and how they are brought up to date at every start.

As in Kubernetes: what is missing is added, what somebody added stays, and an object whose annotation says so is left
alone.
"""

from __future__ import annotations

from importlib.resources import files

from penstock.apiserver.access.rules import uncovered
from penstock.apiserver.documents import meta
from penstock.kube.kinds import Obj
from penstock.yaml_files import documents

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_FILES = ("kubernetes.yaml", "knative.yaml", "penstock.yaml")
_BOOTSTRAPPED = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def roles() -> list[Obj]:
    """Every role and binding, and the ServiceAccounts that they name."""
    folder = files("penstock.apiserver.cluster").joinpath("roles")
    return [
        _marked(document, name == "kubernetes.yaml") for name in _FILES for document in documents(folder.joinpath(name))
    ]


def reconciled(old: Obj, expected: Obj) -> Obj:
    """The stored object with what is missing from it."""
    details, wanted = meta(old), meta(expected)
    if (details.get("annotations") or {}).get(AUTOUPDATE) == "false":
        return old
    for field in ("labels", "annotations"):
        if wanted.get(field):
            details[field] = {**(details.get(field) or {}), **wanted[field]}
    if "aggregationRule" in expected:
        present = (old.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
        wanted_selectors = expected["aggregationRule"]["clusterRoleSelectors"]
        selectors = [*present, *(one for one in wanted_selectors if one not in present)]
        return {**old, "aggregationRule": {"clusterRoleSelectors": selectors}}
    if "rules" in expected:
        held = old.get("rules") or []
        return {**old, "rules": [*held, *(rule for rule in expected["rules"] if uncovered(held, [rule]))]}
    if "subjects" in expected:
        held = old.get("subjects") or []
        return {**old, "subjects": [*held, *(one for one in expected["subjects"] if one not in held)]}
    return old


def _marked(document: Obj, bootstrapped: bool) -> Obj:
    details = meta(document)
    if bootstrapped:
        details["labels"] = {**_BOOTSTRAPPED, **(details.get("labels") or {})}
    else:
        details["labels"] = {**(details.get("labels") or {}), "app.kubernetes.io/name": "knative-eventing"}
    if document["kind"] != "ServiceAccount":
        details["annotations"] = {AUTOUPDATE: "true"}
    return document
