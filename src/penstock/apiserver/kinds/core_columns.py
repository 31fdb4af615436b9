"""The columns of core kinds that no JSONPath can give: counts, joined lists, states."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from penstock.apiserver.documents import Obj
from penstock.apiserver.kinds import jsonpath
from penstock.apiserver.kinds.ages import human_age
from penstock.apiserver.kinds.registry import Column

Cell = Callable[[Obj, datetime], Any]
NONE = "<none>"


def _at(path: str, missing: str = NONE) -> Cell:
    def cell(obj: Obj, _now: datetime) -> Any:
        value = jsonpath.first(path, obj)
        return missing if value in (None, "") else value

    return cell


def _age(path: str = ".metadata.creationTimestamp") -> Cell:
    def cell(obj: Obj, now: datetime) -> str:
        value = jsonpath.first(path, obj)
        return human_age(str(value), now) if value else "<unknown>"

    return cell


def _count(*paths: str) -> Cell:
    return lambda obj, _now: sum(len(jsonpath.first(path, obj) or ()) for path in paths)


def _column(name: str, type_: str = "string", priority: int = 0) -> Column:
    return Column(name, "", type_, priority)


def _containers(obj: Obj) -> list[Obj]:
    return (obj.get("status") or {}).get("containerStatuses") or []


def _pod_ready(obj: Obj, _now: datetime) -> str:
    total = len((obj.get("spec") or {}).get("containers") or ())
    return f"{sum(1 for state in _containers(obj) if state.get('ready'))}/{total}"


def _pod_status(obj: Obj, _now: datetime) -> str:
    status = obj.get("status") or {}
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for container in _containers(obj):
        state = container.get("state") or {}
        for kind in ("waiting", "terminated"):
            reason = (state.get(kind) or {}).get("reason")
            if reason:
                return str(reason)
    return str(status.get("reason") or status.get("phase") or "Unknown")


def _pod_restarts(obj: Obj, _now: datetime) -> str:
    return str(sum(state.get("restartCount", 0) for state in _containers(obj)))


def _node_status(obj: Obj, _now: datetime) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    states = {one["type"]: one["status"] for one in conditions}
    if "Ready" not in states:
        return "Unknown"
    return "Ready" if states["Ready"] == "True" else "NotReady"


def _node_roles(obj: Obj, _now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return ",".join(sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))) or NONE


def _node_address(kind: str) -> Cell:
    def cell(obj: Obj, _now: datetime) -> str:
        addresses = (obj.get("status") or {}).get("addresses") or ()
        return next((str(one["address"]) for one in addresses if one["type"] == kind), NONE)

    return cell


def _service_ports(obj: Obj, _now: datetime) -> str:
    ports = (obj.get("spec") or {}).get("ports") or ()
    return ",".join(f"{port['port']}/{port.get('protocol', 'TCP')}" for port in ports) or NONE


def _service_external(obj: Obj, _now: datetime) -> str:
    spec = obj.get("spec") or {}
    return str(spec.get("externalName") or ",".join(spec.get("externalIPs") or ()) or NONE)


def _selector(obj: Obj, _now: datetime) -> str:
    selector = (obj.get("spec") or {}).get("selector") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or NONE


def _endpoints(obj: Obj, _now: datetime) -> str:
    found = [
        f"{address['ip']}:{port['port']}" if port else address["ip"]
        for subset in obj.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or (None,)
    ]
    shown = ",".join(found[:3])
    return (f"{shown} + {len(found) - 3} more..." if len(found) > 3 else shown) or NONE


def _event_object(obj: Obj, _now: datetime) -> str:
    involved = obj.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_age(obj: Obj, now: datetime) -> str:
    moment = obj.get("lastTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp")
    return human_age(str(moment), now)


def _role(obj: Obj, _now: datetime) -> str:
    role = obj.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


_AGE = (_column("Age"), _age())
_CREATED = (_column("Created At", "date"), _at(".metadata.creationTimestamp"))

CELLS: dict[str, tuple[tuple[Column, Cell], ...]] = {
    "namespaces": ((_column("Status"), _at(".status.phase")), _AGE),
    "nodes": (
        (_column("Status"), _node_status),
        (_column("Roles"), _node_roles),
        _AGE,
        (_column("Version"), _at(".status.nodeInfo.kubeletVersion")),
        (_column("Internal-IP", priority=1), _node_address("InternalIP")),
        (_column("External-IP", priority=1), _node_address("ExternalIP")),
        (_column("OS-Image", priority=1), _at(".status.nodeInfo.osImage")),
        (_column("Kernel-Version", priority=1), _at(".status.nodeInfo.kernelVersion")),
        (_column("Container-Runtime", priority=1), _at(".status.nodeInfo.containerRuntimeVersion")),
    ),
    "pods": (
        (_column("Ready"), _pod_ready),
        (_column("Status"), _pod_status),
        (_column("Restarts"), _pod_restarts),
        _AGE,
        (_column("IP", priority=1), _at(".status.podIP")),
        (_column("Node", priority=1), _at(".spec.nodeName")),
        (_column("Nominated Node", priority=1), _at(".status.nominatedNodeName")),
        (_column("Readiness Gates", priority=1), lambda _obj, _now: NONE),
    ),
    "services": (
        (_column("Type"), _at(".spec.type")),
        (_column("Cluster-IP"), _at(".spec.clusterIP")),
        (_column("External-IP"), _service_external),
        (_column("Port(s)"), _service_ports),
        _AGE,
        (_column("Selector", priority=1), _selector),
    ),
    "serviceaccounts": ((_column("Secrets", "integer"), _count(".secrets")), _AGE),
    "configmaps": ((_column("Data", "integer"), _count(".data", ".binaryData")), _AGE),
    "secrets": ((_column("Type"), _at(".type")), (_column("Data", "integer"), _count(".data")), _AGE),
    "endpoints": ((_column("Endpoints"), _endpoints), _AGE),
    "events": (
        (_column("Last Seen"), _event_age),
        (_column("Type"), _at(".type", "")),
        (_column("Reason"), _at(".reason", "")),
        (_column("Object"), _event_object),
        (_column("Subobject", priority=1), _at(".involvedObject.fieldPath", "")),
        (_column("Source", priority=1), _at(".source.component", "")),
        (_column("Message"), _at(".message", "")),
        (_column("First Seen", priority=1), _age(".firstTimestamp")),
        (_column("Count", "integer", 1), lambda obj, _now: obj.get("count", 1)),
    ),
    "roles.rbac.authorization.k8s.io": (_CREATED,),
    "clusterroles.rbac.authorization.k8s.io": (_CREATED,),
    "rolebindings.rbac.authorization.k8s.io": ((_column("Role"), _role), _AGE),
    "clusterrolebindings.rbac.authorization.k8s.io": ((_column("Role"), _role), _AGE),
    "customresourcedefinitions.apiextensions.k8s.io": (_CREATED,),
    "endpointslices.discovery.k8s.io": ((_column("AddressType"), _at(".addressType")), _AGE),
    "leases.coordination.k8s.io": ((_column("Holder"), _at(".spec.holderIdentity")), _AGE),
}
