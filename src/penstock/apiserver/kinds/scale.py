"""The `scale` subresource of Deployments and ReplicaSets."""

from __future__ import annotations

from typing import Any

from penstock.apiserver import errors
from penstock.apiserver.documents import meta
from penstock.apiserver.kinds.columns import selector_text
from penstock.kube.kinds import Obj

GROUP, VERSION, KIND = "autoscaling", "v1", "Scale"
API_VERSION = f"{GROUP}/{VERSION}"
_SHARED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(obj: Obj) -> Obj:
    """The Scale of a Deployment or ReplicaSet."""
    spec, status, details = obj.get("spec") or {}, obj.get("status") or {}, meta(obj)
    return {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {key: details[key] for key in _SHARED if key in details},
        "spec": {"replicas": spec.get("replicas", 0)},
        "status": {"replicas": status.get("replicas", 0), "selector": selector_text(spec.get("selector"))},
    }


def scaled(obj: Obj, scale: Obj) -> Obj:
    """The object with as many replicas as the Scale says; the resourceVersion of the Scale is a precondition."""
    named = (scale.get("apiVersion", API_VERSION), scale.get("kind", KIND))
    if named != (API_VERSION, KIND):
        raise errors.bad_request(f"the object provided is a {named[1]} in {named[0]}, not a {KIND} in {API_VERSION}")
    replicas: Any = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise errors.bad_request("spec.replicas is not a number")
    if not 0 <= replicas < 2**31:
        sentence = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise errors.invalid(GROUP, KIND, meta(obj)["name"], [("spec.replicas", "FieldValueInvalid", sentence)])
    given = {key: value for key, value in (scale.get("metadata") or {}).items() if key in ("uid", "resourceVersion")}
    return {**obj, "metadata": {**meta(obj), **given}, "spec": {**(obj.get("spec") or {}), "replicas": replicas}}
