"""Decisions about a CronJob: the Job that is due, old Jobs to delete, and when the next one is due. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.controllers.workloads.jobs import finished_condition
from penstock.controllers.workloads.owned import reference_to
from penstock.kube.kinds import CRON_JOB, JOB, Obj
from penstock.resources.schedules import BadLocation, BadSchedule, parse
from penstock.runtime.times import parse_rfc3339, rfc3339

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MOST_MISSED = 100


@dataclass(frozen=True)
class CronJobDecision:
    """What to do about a CronJob."""

    status: dict[str, Any]
    create: Obj | None = None
    replace: tuple[Obj, ...] = ()
    """Jobs that the new one replaces."""
    delete: tuple[Obj, ...] = ()
    """Finished Jobs beyond the history limits."""
    again: float | None = None
    """Seconds until the next Job is due."""
    events: tuple[tuple[str, str, str], ...] = ()
    """Events to record: (type, reason, message)."""


def decide(cronjob: Obj, jobs: Iterable[Obj], now: datetime) -> CronJobDecision:
    """What to do about the CronJob now."""
    jobs = list(jobs)
    spec = cronjob["spec"]
    running = [job for job in jobs if finished_condition(job) is None]
    status = _status(cronjob, jobs, running)
    forgotten = tuple(_forgotten(spec, jobs))
    try:
        due, following, missed = _due(cronjob, now)
    except BadSchedule as error:
        reason = "UnknownTimeZone" if isinstance(error, BadLocation) else "UnparseableSchedule"
        return CronJobDecision(status, delete=forgotten, events=(("Warning", reason, str(error)),))
    again = None if following is None else max((following - now).total_seconds(), 0.0)
    quiet = CronJobDecision(status, delete=forgotten, again=again)
    if spec.get("suspend") or due is None:
        return quiet
    events = _missed(missed)
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None and now - due > timedelta(seconds=deadline):
        message = f"Missed scheduled time to start a job: {due.strftime('%a, %d %b %Y %H:%M:%S +0000')}"
        return CronJobDecision(status, delete=forgotten, again=again, events=(("Warning", "MissSchedule", message),))
    policy = spec.get("concurrencyPolicy", "Allow")
    if running and policy == "Forbid":
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return CronJobDecision(status, delete=forgotten, again=again, events=(("Normal", "JobAlreadyActive", message),))
    made = job_of(cronjob, due)
    if any(job["metadata"]["name"] == made["metadata"]["name"] for job in jobs):
        return quiet
    replaced = tuple(running) if policy == "Replace" else ()
    status["lastScheduleTime"] = rfc3339(due)
    events += (("Normal", "SuccessfulCreate", f"Created job {made['metadata']['name']}"),)
    return CronJobDecision(status, made, replaced, forgotten, again, events)


def times(schedule: str, zone: str | None, after: datetime) -> Iterator[datetime]:
    """The times of the schedule after `after`. Raises BadSchedule."""
    moments = parse(schedule, zone or "").after(int(after.timestamp()))
    return (datetime.fromtimestamp(second, UTC) for second in moments)


def _due(cronjob: Obj, now: datetime) -> tuple[datetime | None, datetime | None, int]:
    """(the last time that is due and has no Job yet, the next one, how many were due since the last Job)."""
    spec, status = cronjob["spec"], cronjob.get("status") or {}
    since = parse_rfc3339(status.get("lastScheduleTime") or cronjob["metadata"]["creationTimestamp"])
    if spec.get("startingDeadlineSeconds") is not None:
        since = max(since, now - timedelta(seconds=spec["startingDeadlineSeconds"] + 1))
    following = next(times(spec["schedule"], spec.get("timeZone"), now), None)
    due, missed = None, 0
    for moment in times(spec["schedule"], spec.get("timeZone"), since):
        if moment > now or missed > MOST_MISSED:
            break
        due, missed = moment, missed + 1
    if missed > MOST_MISSED:
        due = _latest(spec, now)
    return due, following, missed


def _latest(spec: dict[str, Any], now: datetime) -> datetime | None:
    """The last time before now, searched in growing windows: stepping over years of minutes would take too long."""
    for window in (timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=366)):
        found = None
        for moment in times(spec["schedule"], spec.get("timeZone"), now - window):
            if moment > now:
                break
            found = moment
        if found is not None:
            return found
    return None


def _missed(missed: int) -> tuple[tuple[str, str, str], ...]:
    if missed <= MOST_MISSED:
        return ()
    message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
    return (("Warning", "TooManyMissedTimes", message),)


def job_of(cronjob: Obj, due: datetime) -> Obj:
    """The Job of one scheduled time, which is part of its name, so that it is created only once."""
    metadata, template = cronjob["metadata"], cronjob["spec"]["jobTemplate"]
    described = template.get("metadata") or {}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            "name": f"{metadata['name']}-{int(due.timestamp()) // 60}",
            "namespace": metadata["namespace"],
            "labels": dict(described.get("labels") or {}),
            "annotations": {**(described.get("annotations") or {}), SCHEDULED: rfc3339(due)},
            "ownerReferences": [reference_to(CRON_JOB, cronjob)],
        },
        "spec": copy.deepcopy(template.get("spec") or {}),
    }


def _status(cronjob: Obj, jobs: list[Obj], running: list[Obj]) -> dict[str, Any]:
    before = cronjob.get("status") or {}
    status = {key: before[key] for key in ("lastScheduleTime", "lastSuccessfulTime") if before.get(key)}
    ends = [job["status"]["completionTime"] for job in jobs if (job.get("status") or {}).get("completionTime")]
    if ends:
        status["lastSuccessfulTime"] = max([*ends, status.get("lastSuccessfulTime") or ""])
    active = [
        {
            "apiVersion": JOB.api_version,
            "kind": JOB.kind,
            "name": job["metadata"]["name"],
            "namespace": job["metadata"]["namespace"],
            "uid": job["metadata"]["uid"],
        }
        for job in running
    ]
    return status | ({"active": active} if active else {})


def _forgotten(spec: dict[str, Any], jobs: list[Obj]) -> list[Obj]:
    """Finished Jobs beyond the history limits, oldest first."""
    kinds = (("Complete", spec.get("successfulJobsHistoryLimit", 3)), ("Failed", spec.get("failedJobsHistoryLimit", 1)))
    gone: list[Obj] = []
    for kind, limit in kinds:
        ended = [job for job in jobs if (finished_condition(job) or {}).get("type") == kind]
        gone += ended[: max(len(ended) - (3 if limit is None else limit), 0)]
    return gone
