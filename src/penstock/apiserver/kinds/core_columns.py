"""The columns of core kinds that no JSONPath can give: counts, joined lists, states."""

from __future__ import annotations

from datetime import datetime

from penstock.apiserver.kinds.columns import AGE, CREATED, NONE, Cell, Cells, age, at, column, count, human_age, joined
from penstock.kube.kinds import Obj


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
    return joined(found)


def _event_object(obj: Obj, _now: datetime) -> str:
    involved = obj.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_age(obj: Obj, now: datetime) -> str:
    observed = (obj.get("series") or {}).get("lastObservedTime")
    moment = observed or obj.get("lastTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp")
    return human_age(str(moment), now)


def _event_source(obj: Obj, _now: datetime) -> str:
    source = obj.get("source") or {}
    named = [
        source.get("component") or obj.get("reportingComponent"),
        source.get("host") or obj.get("reportingInstance"),
    ]
    return ", ".join(str(one) for one in named if one)


def _role(obj: Obj, _now: datetime) -> str:
    role = obj.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


CELLS: dict[str, Cells] = {
    "namespaces": ((column("Status"), at(".status.phase")), AGE),
    "nodes": (
        (column("Status"), _node_status),
        (column("Roles"), _node_roles),
        AGE,
        (column("Version"), at(".status.nodeInfo.kubeletVersion")),
        (column("Internal-IP", priority=1), _node_address("InternalIP")),
        (column("External-IP", priority=1), _node_address("ExternalIP")),
        (column("OS-Image", priority=1), at(".status.nodeInfo.osImage")),
        (column("Kernel-Version", priority=1), at(".status.nodeInfo.kernelVersion")),
        (column("Container-Runtime", priority=1), at(".status.nodeInfo.containerRuntimeVersion")),
    ),
    "pods": (
        (column("Ready"), _pod_ready),
        (column("Status"), _pod_status),
        (column("Restarts"), _pod_restarts),
        AGE,
        (column("IP", priority=1), at(".status.podIP")),
        (column("Node", priority=1), at(".spec.nodeName")),
        (column("Nominated Node", priority=1), at(".status.nominatedNodeName")),
        (column("Readiness Gates", priority=1), lambda _obj, _now: NONE),
    ),
    "services": (
        (column("Type"), at(".spec.type")),
        (column("Cluster-IP"), at(".spec.clusterIP")),
        (column("External-IP"), _service_external),
        (column("Port(s)"), _service_ports),
        AGE,
        (column("Selector", priority=1), _selector),
    ),
    "serviceaccounts": ((column("Secrets", "integer"), count(".secrets")), AGE),
    "configmaps": ((column("Data", "integer"), count(".data", ".binaryData")), AGE),
    "secrets": ((column("Type"), at(".type")), (column("Data", "integer"), count(".data")), AGE),
    "endpoints": ((column("Endpoints"), _endpoints), AGE),
    "events": (
        (column("Last Seen"), _event_age),
        (column("Type"), at(".type", "")),
        (column("Reason"), at(".reason", "")),
        (column("Object"), _event_object),
        (column("Subobject", priority=1), at(".involvedObject.fieldPath", "")),
        (column("Source", priority=1), _event_source),
        (column("Message"), at(".message", "")),
        (column("First Seen", priority=1), age(".firstTimestamp")),
        (column("Count", "integer", 1), lambda obj, _now: obj.get("count") or 1),
        (column("Name", priority=1, format_="name"), at(".metadata.name")),
    ),
    "roles.rbac.authorization.k8s.io": (CREATED,),
    "clusterroles.rbac.authorization.k8s.io": (CREATED,),
    "rolebindings.rbac.authorization.k8s.io": ((column("Role"), _role), AGE),
    "clusterrolebindings.rbac.authorization.k8s.io": ((column("Role"), _role), AGE),
    "customresourcedefinitions.apiextensions.k8s.io": (CREATED,),
}
