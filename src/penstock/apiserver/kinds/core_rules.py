"""What the server itself adds to core kinds when they are written: phases, cluster addresses, decoded secrets."""

from __future__ import annotations

import base64
from typing import Any

from penstock.apiserver import errors
from penstock.apiserver.documents import meta
from penstock.apiserver.kinds import custom_kinds, workload_rules
from penstock.apiserver.kinds.registry import ServedKind
from penstock.kube.kinds import Obj
from penstock.resources.pod_rules import data_faults, pod_faults


def complete(kind: ServedKind, obj: Obj, old: Obj | None, *, number: int, now: str) -> None:
    """Fills in what a cluster fills in, changing `obj`; `number` is a unique number for addresses."""
    rule = _RULES.get(kind.resource)
    if rule:
        rule(obj, old, number, now)


def _namespace(obj: Obj, old: Obj | None, _number: int, _now: str) -> None:
    labels = meta(obj).get("labels") or {}
    meta(obj)["labels"] = labels | {"kubernetes.io/metadata.name": meta(obj)["name"]}
    spec = obj.get("spec") or {}
    obj["spec"] = spec
    spec["finalizers"] = ["kubernetes"]
    obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating" if _deleted(obj) else "Active"}


def _pod(obj: Obj, old: Obj | None, _number: int, _now: str) -> None:
    spec = obj.get("spec") or {}
    if not spec.get("containers"):
        complaint = ("spec.containers", "FieldValueRequired", "Required value")
        raise errors.invalid("", "Pod", meta(obj)["name"], [complaint])
    spec.setdefault("serviceAccountName", "default")
    if old is None:
        # Only for new Pods: an update may change images and little else, see below.
        if faults := pod_faults(spec, "spec"):
            raise errors.invalid("", "Pod", meta(obj)["name"], workload_rules.complaints_of(faults))
        obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
        return
    allowed = {"tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds", "schedulingGates", "nodeName"}
    before, after = old.get("spec") or {}, obj.get("spec") or {}
    for field in before.keys() | after.keys():
        if field in allowed or field in ("containers", "initContainers"):
            continue
        if before.get(field) != after.get(field):
            raise _fixed(obj)
    if _without_images(before) != _without_images(after):
        raise _fixed(obj)


def _fixed(obj: Obj) -> errors.ApiError:
    sentence = "Forbidden: pod updates may not change fields other than the images of containers and tolerations"
    return errors.invalid("", "Pod", meta(obj)["name"], [("spec", "FieldValueForbidden", sentence)])


def _without_images(spec: Obj) -> list[Any]:
    return [
        [{key: value for key, value in container.items() if key != "image"} for container in spec.get(field) or ()]
        for field in ("containers", "initContainers")
    ]


def _service(obj: Obj, old: Obj | None, number: int, _now: str) -> None:
    spec = obj.get("spec") or {}
    obj["spec"] = spec
    obj.setdefault("status", {"loadBalancer": {}})
    for port in spec.get("ports") or ():
        # Go clients write 0 for a port that was not named.
        port["targetPort"] = port.get("targetPort") or port["port"]
    if spec.get("type") == "ExternalName":
        spec.pop("clusterIP", None)
        spec.pop("clusterIPs", None)
        return
    kept = ((old or {}).get("spec") or {}).get("clusterIP")
    address = spec.get("clusterIP") or kept or f"10.{96 + (number >> 16) % 16}.{(number >> 8) % 256}.{number % 256}"
    spec["clusterIP"], spec["clusterIPs"] = address, [address]
    spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _secret(obj: Obj, old: Obj | None, _number: int, _now: str) -> None:
    plain = obj.pop("stringData", None) or {}
    if plain:
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        obj["data"] = (obj.get("data") or {}) | encoded
    for key, value in (obj.get("data") or {}).items():
        try:
            base64.b64decode(value, validate=True)
        except (ValueError, TypeError):
            path, sentence = f"data.{key}", "Invalid value: must be base64"
            raise errors.invalid("", "Secret", meta(obj)["name"], [(path, "FieldValueInvalid", sentence)]) from None
    _check_keys("Secret", obj, old)
    _unchanged_if_immutable("Secret", obj, old)


def _configmap(obj: Obj, old: Obj | None, _number: int, _now: str) -> None:
    for key, value in (obj.get("data") or {}).items():
        if not isinstance(value, str):
            path, sentence = f"data.{key}", f"Invalid value: {type(value).__name__!r}: must be a string"
            raise errors.invalid("", "ConfigMap", meta(obj)["name"], [(path, "FieldValueTypeInvalid", sentence)])
    _check_keys("ConfigMap", obj, old)
    _unchanged_if_immutable("ConfigMap", obj, old)


def _check_keys(kind: str, obj: Obj, old: Obj | None) -> None:
    """Keys become names of files. Unchanged data may have been stored before this rule existed."""
    fields = [field for field in ("data", "binaryData") if old is None or obj.get(field) != old.get(field)]
    if faults := [fault for field in fields for fault in data_faults(field, obj.get(field))]:
        raise errors.invalid("", kind, meta(obj)["name"], workload_rules.complaints_of(faults))


def _unchanged_if_immutable(kind: str, obj: Obj, old: Obj | None) -> None:
    if old and old.get("immutable") and (old.get("data"), True) != (obj.get("data"), obj.get("immutable")):
        complaint = ("data", "FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set")
        raise errors.invalid("", kind, meta(obj)["name"], [complaint])


def _definition(obj: Obj, old: Obj | None, _number: int, now: str) -> None:
    custom_kinds.check(obj)
    custom_kinds.complete(obj, now)


def _deleted(obj: Obj) -> bool:
    return bool(meta(obj).get("deletionTimestamp"))


_RULES = {
    "namespaces": _namespace,
    "pods": _pod,
    "services": _service,
    "secrets": _secret,
    "configmaps": _configmap,
    custom_kinds.RESOURCE: _definition,
    **workload_rules.RULES,
}
