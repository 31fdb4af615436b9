"""Decisions about a Job, given its Pods and the time: Pods to create and to delete, and its status. Pure.

```
Pods to run --> Pods that fail, again after a pause that doubles --> backoffLimit --> Failed
            \\-> enough that succeed --> Complete            activeDeadlineSeconds --> Failed
```
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from penstock.controllers.workloads.owned import is_active, is_terminating, phase_of, ready_since, with_condition
from penstock.kube.kinds import Obj
from penstock.resources.conditions import find, is_true
from penstock.runtime.rate_limit import pause_after
from penstock.runtime.times import parse_rfc3339, rfc3339

FIRST_BACK_OFF_SECONDS, LONGEST_BACK_OFF_SECONDS = 10.0, 600.0
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


@dataclass(frozen=True)
class JobDecision:
    """What to do about a Job."""

    status: dict[str, Any]
    create: int | tuple[int, ...] = 0
    """How many Pods to create; for an indexed Job, with which indexes."""
    delete: tuple[Obj, ...] = ()
    expired: bool = False
    """Whether the Job itself is to be deleted."""
    again: float | None = None
    """Seconds after which to reconcile it again although nothing changes."""
    events: tuple[tuple[str, str, str], ...] = ()
    """Events to record: (type, reason, message)."""


@dataclass(frozen=True)
class _End:
    kind: str
    reason: str
    message: str


def decide(job: Obj, pods: Iterable[Obj], now: datetime) -> JobDecision:
    """What to do about the Job now."""
    pods = list(pods)
    spec, before = job["spec"], job.get("status") or {}
    finished = finished_condition(job)
    if finished:
        return _after_the_end(job, pods, finished, now)
    if spec.get("suspend"):
        return _suspended(before, pods, rfc3339(now))
    status = _started(before, rfc3339(now))
    succeeded, failed = _counts(job, pods)
    active = [pod for pod in pods if is_active(pod)]
    status |= {
        "active": len(active),
        "ready": sum(1 for pod in active if ready_since(pod)),
        "terminating": sum(1 for pod in pods if is_terminating(pod) and phase_of(pod) not in ("Succeeded", "Failed")),
        "succeeded": succeeded,
        "failed": failed,
        "uncountedTerminatedPods": {},
    }
    if _indexed(spec):
        status["completedIndexes"] = ranges(_completed(pods))
    end = _end(job, status, active, now)
    if end is not None:
        return _ending(status, end, active, now)
    return _running(job, pods, status, active, now)


def finished_condition(job: Obj) -> Mapping[str, Any] | None:
    """The condition of a finished Job, `Complete` or `Failed`; None where it is not finished."""
    ended = next((kind for kind in ("Complete", "Failed") if is_true(job, kind)), None)
    return None if ended is None else find(job["status"]["conditions"], ended)


def _after_the_end(job: Obj, pods: list[Obj], finished: Mapping[str, Any], now: datetime) -> JobDecision:
    status = dict(job["status"])
    left = tuple(pod for pod in pods if is_active(pod))
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    if ttl is None:
        return JobDecision(status, delete=left)
    due = parse_rfc3339(finished["lastTransitionTime"]) + timedelta(seconds=ttl)
    if now >= due:
        return JobDecision(status, delete=left, expired=True)
    return JobDecision(status, delete=left, again=(due - now).total_seconds())


def _suspended(before: Mapping[str, Any], pods: list[Obj], now: str) -> JobDecision:
    status = {key: value for key, value in before.items() if key != "startTime"} | {"active": 0, "ready": 0}
    active = tuple(pod for pod in pods if is_active(pod))
    if (find(before.get("conditions"), "Suspended") or {}).get("status") == "True":
        return JobDecision(status, delete=active)
    condition = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
    status["conditions"] = with_condition(before.get("conditions") or (), {**condition, "lastProbeTime": now}, now)
    return JobDecision(status, delete=active, events=(("Normal", "Suspended", "Job suspended"),))


def _started(before: Mapping[str, Any], now: str) -> dict[str, Any]:
    status = copy.deepcopy(dict(before))
    suspended = find(status.get("conditions"), "Suspended")
    if suspended is not None and suspended.get("status") == "True":
        resumed = {"type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed"}
        status["conditions"] = with_condition(status["conditions"], {**resumed, "lastProbeTime": now}, now)
        status["startTime"] = now
    status.setdefault("startTime", now)
    return status


def _counts(job: Obj, pods: list[Obj]) -> tuple[int, int]:
    """How many Pods have succeeded and failed. Pods that were deleted since still count."""
    before = job.get("status") or {}
    succeeded = len(_completed(pods)) if _indexed(job["spec"]) else sum(1 for p in pods if phase_of(p) == "Succeeded")
    failed = sum(1 for pod in pods if phase_of(pod) == "Failed")
    return max(succeeded, before.get("succeeded") or 0), max(failed, before.get("failed") or 0)


def _end(job: Obj, status: Mapping[str, Any], active: list[Obj], now: datetime) -> _End | None:
    spec, limit = job["spec"], job["spec"].get("backoffLimit", 6)
    restarts = sum(_restarts(pod) for pod in active)
    on_failure = spec["template"]["spec"].get("restartPolicy") == "OnFailure"
    if status["failed"] > limit or (on_failure and restarts and restarts >= limit):
        return _End("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and now >= parse_rfc3339(status["startTime"]) + timedelta(seconds=deadline):
        return _End("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    completions, succeeded = spec.get("completions"), status["succeeded"]
    done = succeeded > 0 and not active if completions is None else succeeded >= completions
    if done:
        return _End("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _ending(status: dict[str, Any], end: _End, active: list[Obj], now: datetime) -> JobDecision:
    moment = rfc3339(now)
    first = "SuccessCriteriaMet" if end.kind == "Complete" else "FailureTarget"
    for kind in (first, end.kind):
        condition = {"type": kind, "status": "True", "reason": end.reason, "message": end.message}
        condition["lastProbeTime"] = moment
        status["conditions"] = with_condition(status.get("conditions") or (), condition, moment)
    status |= {"active": 0, "ready": 0}
    if end.kind == "Complete":
        status["completionTime"] = moment
        event = ("Normal", "Completed", "Job completed")
    else:
        status["failed"] += len(active)
        event = ("Warning", end.reason, end.message)
    return JobDecision(status, delete=tuple(active), again=0.0, events=(event,))


def _running(job: Obj, pods: list[Obj], status: dict[str, Any], active: list[Obj], now: datetime) -> JobDecision:
    spec = job["spec"]
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    if completions is None:
        wanted = len(active) if status["succeeded"] else parallelism
    else:
        wanted = min(parallelism, completions - status["succeeded"])
    wait = max(_wait(pods, now), 0.0)
    again = _until_deadline(spec, status, now)
    if len(active) > wanted:
        return JobDecision(status, delete=tuple(active[wanted:]), again=again)
    missing = wanted - len(active)
    if missing and wait:
        return JobDecision(status, again=wait if again is None else min(wait, again))
    if not _indexed(spec):
        return JobDecision(status, create=missing, again=again)
    taken = _completed(pods) | {_index(pod) for pod in active}
    free = [index for index in range(completions or 0) if index not in taken]
    return JobDecision(status, create=tuple(free[:missing]), again=again)


def _until_deadline(spec: Mapping[str, Any], status: Mapping[str, Any], now: datetime) -> float | None:
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is None:
        return None
    return max((parse_rfc3339(status["startTime"]) + timedelta(seconds=deadline) - now).total_seconds(), 0.0)


def _wait(pods: list[Obj], now: datetime) -> float:
    """Seconds until another Pod may be created: the pause doubles with each failure in a row."""
    ends = sorted((moment, phase_of(pod)) for pod in pods if (moment := finished_at(pod)) is not None)
    failures = 0
    for _, phase in reversed(ends):
        if phase != "Failed":
            break
        failures += 1
    if not failures:
        return 0.0
    pause = pause_after(failures, FIRST_BACK_OFF_SECONDS, LONGEST_BACK_OFF_SECONDS)
    return (ends[-1][0] + timedelta(seconds=pause) - now).total_seconds()


def finished_at(pod: Obj) -> datetime | None:
    """When the last container of a finished Pod ended."""
    if phase_of(pod) not in ("Succeeded", "Failed"):
        return None
    states = ((one.get("state") or {}).get("terminated") or {} for one in _statuses(pod))
    ends = [parse_rfc3339(state["finishedAt"]) for state in states if state.get("finishedAt")]
    return max(ends, default=parse_rfc3339(pod["metadata"].get("creationTimestamp") or "1970-01-01T00:00:00Z"))


def _restarts(pod: Obj) -> int:
    return sum(int(one.get("restartCount") or 0) for one in _statuses(pod))


def _statuses(pod: Obj) -> list[Mapping[str, Any]]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _indexed(spec: Mapping[str, Any]) -> bool:
    return bool(spec.get("completionMode") == "Indexed")


def _index(pod: Obj) -> int:
    text = str((pod["metadata"].get("annotations") or {}).get(INDEX) or "")
    return int(text) if text.isdigit() else -1


def _completed(pods: Iterable[Obj]) -> set[int]:
    return {_index(pod) for pod in pods if phase_of(pod) == "Succeeded"} - {-1}


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in the format of Kubernetes: `0,2-4`."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def indexed_pod(pod: Obj, job_name: str, index: int) -> Obj:
    """The Pod of an indexed Job, with its index in name, label, annotation and environment."""
    metadata = pod["metadata"]
    metadata["name"] = f"{job_name[:50]}-{index}-{metadata['name'].rpartition('-')[2]}"
    for field in ("labels", "annotations"):
        metadata[field] = {**(metadata.get(field) or {}), INDEX: str(index)}
    for container in pod["spec"].get("containers") or ():
        container.setdefault("env", []).append({"name": INDEX_VARIABLE, "value": str(index)})
    return pod
