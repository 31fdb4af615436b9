"""The columns of Jobs, CronJobs, Deployments, ReplicaSets, Leases and EndpointSlices."""

from __future__ import annotations

from datetime import datetime

from penstock.apiserver.kinds import jsonpath
from penstock.apiserver.kinds.columns import (
    AGE,
    NONE,
    Cell,
    Cells,
    age,
    at,
    column,
    human_duration,
    joined,
    selector_text,
)
from penstock.kube.kinds import Obj
from penstock.runtime.times import parse_rfc3339

_JOB_STATES = {
    "Complete": "Complete",
    "Failed": "Failed",
    "Suspended": "Suspended",
    "FailureTarget": "FailureTarget",
    "SuccessCriteriaMet": "SuccessCriteriaMet",
}


def _spec(obj: Obj) -> Obj:
    return obj.get("spec") or {}


def _status(obj: Obj) -> Obj:
    return obj.get("status") or {}


def _template_containers(path: str, field: str) -> Cell:
    """One field of all containers of the Pod template under `path`."""

    def cell(obj: Obj, _now: datetime) -> str:
        containers = jsonpath.first(f"{path}.template.spec.containers", obj) or ()
        return ",".join(str(container.get(field, "")) for container in containers)

    return cell


def _selector(path: str = ".spec.selector") -> Cell:
    return lambda obj, _now: selector_text(jsonpath.first(path, obj)) or NONE


def _template_columns(path: str = ".spec", selector: str = ".spec.selector") -> Cells:
    return (
        (column("Containers", priority=1), _template_containers(path, "name")),
        (column("Images", priority=1), _template_containers(path, "image")),
        (column("Selector", priority=1), _selector(selector)),
    )


def _job_state(obj: Obj, _now: datetime) -> str:
    held = {one["type"] for one in _status(obj).get("conditions") or () if one.get("status") == "True"}
    for ended in ("Complete", "Failed"):
        if ended in held:
            return ended
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((shown for condition, shown in _JOB_STATES.items() if condition in held), "Running")


def _job_completions(obj: Obj, _now: datetime) -> str:
    done, wanted, side_by_side = (
        _status(obj).get("succeeded") or 0,
        _spec(obj).get("completions"),
        _spec(obj).get("parallelism") or 0,
    )
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {side_by_side}" if side_by_side > 1 else f"{done}/1"


def _job_duration(obj: Obj, now: datetime) -> str:
    started, ended = _status(obj).get("startTime"), _status(obj).get("completionTime")
    if not started:
        return ""
    try:
        end = parse_rfc3339(str(ended)) if ended else now
        return human_duration(int((end - parse_rfc3339(str(started))).total_seconds()))
    except ValueError:
        return "<invalid>"


def _cron_suspended(obj: Obj, _now: datetime) -> str:
    return str(bool(_spec(obj).get("suspend")))


def _cron_active(obj: Obj, _now: datetime) -> int:
    return len(_status(obj).get("active") or ())


def _deployment_ready(obj: Obj, _now: datetime) -> str:
    return f"{_status(obj).get('readyReplicas') or 0}/{_spec(obj).get('replicas') or 0}"


def _slice_ports(obj: Obj, _now: datetime) -> str:
    ports = obj.get("ports") or ()
    return joined((str(port.get("port") or port.get("name") or "*") for port in ports), "<unset>")


def _slice_addresses(obj: Obj, _now: datetime) -> str:
    endpoints = obj.get("endpoints") or ()
    return joined((str(one) for endpoint in endpoints for one in endpoint.get("addresses") or ()), "<unset>")


def _number(path: str) -> Cell:
    return at(path, 0)


CELLS: dict[str, Cells] = {
    "jobs.batch": (
        (column("Status"), _job_state),
        (column("Completions"), _job_completions),
        (column("Duration"), _job_duration),
        AGE,
        *_template_columns(),
    ),
    "cronjobs.batch": (
        (column("Schedule"), at(".spec.schedule", "")),
        (column("Timezone"), at(".spec.timeZone")),
        (column("Suspend"), _cron_suspended),
        (column("Active", "integer"), _cron_active),
        (column("Last Schedule"), age(".status.lastScheduleTime", NONE)),
        AGE,
        *_template_columns(".spec.jobTemplate.spec", ".spec.jobTemplate.spec.selector"),
    ),
    "deployments.apps": (
        (column("Ready"), _deployment_ready),
        (column("Up-to-date"), _number(".status.updatedReplicas")),
        (column("Available"), _number(".status.availableReplicas")),
        AGE,
        *_template_columns(),
    ),
    "replicasets.apps": (
        (column("Desired", "integer"), _number(".spec.replicas")),
        (column("Current", "integer"), _number(".status.replicas")),
        (column("Ready", "integer"), _number(".status.readyReplicas")),
        AGE,
        *_template_columns(),
    ),
    "leases.coordination.k8s.io": ((column("Holder"), at(".spec.holderIdentity", "")), AGE),
    "endpointslices.discovery.k8s.io": (
        (column("AddressType"), at(".addressType")),
        (column("Ports"), _slice_ports),
        (column("Endpoints"), _slice_addresses),
        AGE,
    ),
}
