"""What Jobs and CronJobs ask for, decided from how they stand and the time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.controllers.workloads import cronjobs, jobs
from penstock.controllers.workloads.jobs import decide, ranges
from penstock.kube.kinds import Obj
from penstock.runtime.times import rfc3339

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def job(status: Obj | None = None, restart: str = "Never", **spec: Any) -> Obj:
    template = {"spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": "x"}]}}
    defaults = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": template}
    return {"metadata": {"name": "j", "namespace": "ns", "uid": "j1"}, "spec": defaults | spec, "status": status or {}}


def pod(phase: str, ended: float = 0, restarts: int = 0, index: int | None = None, name: str = "p") -> Obj:
    state = {"terminated": {"finishedAt": rfc3339(at(ended))}} if phase in ("Succeeded", "Failed") else {"running": {}}
    annotations = {} if index is None else {jobs.INDEX: str(index)}
    return {
        "metadata": {"name": name, "namespace": "ns", "annotations": annotations},
        "status": {"phase": phase, "containerStatuses": [{"name": "m", "restartCount": restarts, "state": state}]},
    }


def conditions(status: Obj) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in status.get("conditions") or () if one["status"] == "True"}


def test_a_new_job_starts_as_many_pods_as_may_run_at_once() -> None:
    decision = decide(job(parallelism=3, completions=2), [], at(0))
    assert decision.create == 2
    assert decision.status["startTime"] == rfc3339(at(0))
    assert decide(job(parallelism=3, completions=5), [pod("Running")] * 3, at(1)).create == 0
    assert decide(job(parallelism=3, completions=5), [pod("Succeeded")] * 3, at(1)).create == 2


def test_a_job_is_complete_when_enough_have_succeeded() -> None:
    decision = decide(job(), [pod("Succeeded")], at(5))
    assert conditions(decision.status) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    assert decision.status["completionTime"] == rfc3339(at(5))
    assert decision.events == (("Normal", "Completed", "Job completed"),)


def test_a_work_queue_is_complete_when_one_succeeded_and_none_runs() -> None:
    queue = job(completions=None, parallelism=2)
    assert conditions(decide(queue, [pod("Succeeded"), pod("Running")], at(5)).status) == {}
    assert "Complete" in conditions(decide(queue, [pod("Succeeded"), pod("Succeeded")], at(5)).status)


def test_each_failure_doubles_the_pause() -> None:
    assert decide(job(), [pod("Failed", ended=0)], at(3)).again == pytest.approx(7)
    assert decide(job(), [pod("Failed", ended=0)], at(10)).create == 1
    failed = [pod("Failed", ended=0), pod("Failed", ended=10)]
    assert decide(job(), failed, at(10)).again == pytest.approx(20)
    after_success = [pod("Failed", ended=0), pod("Succeeded", ended=10)]
    assert decide(job(completions=2), after_success, at(11)).create == 1


def test_a_job_that_fails_for_ever_stops_at_its_limit() -> None:
    decision = decide(job(backoffLimit=1), [pod("Failed"), pod("Failed")], at(99))
    assert conditions(decision.status)["Failed"] == "BackoffLimitExceeded"
    assert decision.status["conditions"][-1]["message"] == "Job has reached the specified backoff limit"
    assert decision.status["failed"] == 2
    again = decide(job(decision.status, backoffLimit=1), [pod("Failed"), pod("Failed")], at(200))
    assert (again.create, again.status) == (0, decision.status)


def test_restarts_in_place_count_towards_the_limit() -> None:
    assert (
        conditions(decide(job(restart="OnFailure", backoffLimit=2), [pod("Running", restarts=1)], at(1)).status) == {}
    )
    decision = decide(job(restart="OnFailure", backoffLimit=2), [pod("Running", restarts=2)], at(1))
    assert conditions(decision.status)["Failed"] == "BackoffLimitExceeded"
    assert len(decision.delete) == 1


def test_a_deadline_ends_the_job_and_its_pods() -> None:
    running = job({"startTime": rfc3339(at(0))}, activeDeadlineSeconds=30)
    assert decide(running, [pod("Running")], at(10)).again == pytest.approx(20)
    decision = decide(running, [pod("Running")], at(30))
    assert conditions(decision.status)["Failed"] == "DeadlineExceeded"
    assert [one["metadata"]["name"] for one in decision.delete] == ["p"]


def test_a_finished_job_goes_after_its_time_to_live() -> None:
    done = decide(job(ttlSecondsAfterFinished=60), [pod("Succeeded")], at(0)).status
    finished = job(done, ttlSecondsAfterFinished=60)
    assert decide(finished, [], at(20)).again == pytest.approx(40)
    assert decide(finished, [], at(60)).expired


def test_suspended_pods_are_deleted_and_made_again() -> None:
    decision = decide(job({"startTime": rfc3339(at(0))}, suspend=True), [pod("Running")], at(5))
    assert (conditions(decision.status), len(decision.delete)) == ({"Suspended": "JobSuspended"}, 1)
    assert "startTime" not in decision.status
    again = decide(job(decision.status, suspend=True), [], at(6))
    assert (again.status, again.events) == (decision.status, ())
    resumed = decide(job(decision.status), [], at(7))
    assert (resumed.create, conditions(resumed.status), resumed.status["startTime"]) == (1, {}, rfc3339(at(7)))


def test_pods_that_somebody_deleted_stay_counted() -> None:
    assert decide(job({"succeeded": 2}, completions=3), [], at(0)).status["succeeded"] == 2


def test_an_indexed_job_runs_each_index_once() -> None:
    indexed = job(completionMode="Indexed", completions=4, parallelism=2)
    pods = [pod("Succeeded", index=0), pod("Running", index=1)]
    decision = decide(indexed, pods, at(0))
    assert (decision.create, decision.status["completedIndexes"]) == ((2,), "0")
    done = [pod("Succeeded", index=index) for index in range(4)]
    assert "Complete" in conditions(decide(indexed, done, at(0)).status)
    made = jobs.indexed_pod({"metadata": {"name": "j-abcde"}, "spec": {"containers": [{"name": "c"}]}}, "j", 2)
    assert made["metadata"]["name"] == "j-2-abcde"
    assert made["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "2"}]


@pytest.mark.parametrize(("numbers", "text"), [((), ""), ((0, 1, 2, 4), "0-2,4"), ((3,), "3")])
def test_ranges(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text


def cronjob(schedule: str = "*/5 * * * *", status: Obj | None = None, **spec: Any) -> Obj:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {}}}
    metadata = {"name": "c", "namespace": "ns", "uid": "c1", "creationTimestamp": rfc3339(at(1))}
    return {
        "metadata": metadata,
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
        "status": status or {},
    }


def ran(name: str, ended: str | None = None) -> Obj:
    status = {} if ended is None else {"conditions": [{"type": ended, "status": "True"}]}
    return {"metadata": {"name": name, "namespace": "ns", "uid": name}, "status": status}


def test_a_cronjob_waits_for_its_minute() -> None:
    decision = cronjobs.decide(cronjob(), [], at(60))
    assert decision.create is None
    assert decision.again == pytest.approx(240)


def test_a_cronjob_makes_one_job_per_tick_and_the_last_of_those_it_missed() -> None:
    decision = cronjobs.decide(cronjob(), [], at(905))
    assert decision.create is not None
    assert decision.create["metadata"]["name"] == f"c-{int(at(900).timestamp()) // 60}"
    assert decision.create["metadata"]["labels"] == {"a": "b"}
    assert decision.status["lastScheduleTime"] == rfc3339(at(900))
    again = cronjobs.decide(cronjob(status=decision.status), [decision.create | ran("j")], at(910))
    assert again.create is None


def test_a_tick_that_is_too_late_is_passed_over() -> None:
    late = cronjob(startingDeadlineSeconds=3)
    assert cronjobs.decide(late, [], at(303)).create is not None
    assert cronjobs.decide(late, [], at(310)).create is None


@pytest.mark.parametrize(
    ("policy", "created", "replaced"), [("Allow", True, 0), ("Forbid", False, 0), ("Replace", True, 1)]
)
def test_what_happens_while_the_last_job_still_runs(policy: str, created: bool, replaced: int) -> None:
    decision = cronjobs.decide(cronjob(concurrencyPolicy=policy), [ran("old")], at(301))
    assert (decision.create is not None, len(decision.replace)) == (created, replaced)
    assert [one["name"] for one in decision.status["active"]] == ["old"]


def test_a_suspended_cronjob_makes_nothing() -> None:
    assert cronjobs.decide(cronjob(suspend=True), [], at(301)).create is None


def test_finished_jobs_beyond_the_limits_are_removed() -> None:
    done = [ran(f"d{number}", "Complete") for number in range(4)] + [ran("f0", "Failed"), ran("f1", "Failed")]
    assert [one["metadata"]["name"] for one in cronjobs.decide(cronjob(), done, at(60)).delete] == ["d0", "f0"]


def test_ticks_are_those_of_the_time_zone() -> None:
    decision = cronjobs.decide(cronjob("0 8 * * *", timeZone="America/New_York"), [], at(3600 + 1))
    assert decision.create is not None
    assert decision.status["lastScheduleTime"] == "2026-03-01T13:00:00Z"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [({"schedule": "every day"}, "UnparseableSchedule"), ({"timeZone": "Mars/Olympus"}, "UnknownTimeZone")],
)
def test_a_schedule_that_cannot_be_read_is_told(spec: Obj, reason: str) -> None:
    decision = cronjobs.decide(cronjob(**spec), [], at(301))
    assert decision.create is None
    assert [told[1] for told in decision.events] == [reason]


def test_a_schedule_that_never_fires_is_harmless() -> None:
    decision = cronjobs.decide(cronjob("0 0 30 2 *"), [], at(301))
    assert (decision.create, decision.again) == (None, None)


def test_years_of_missed_minutes_take_no_time() -> None:
    decision = cronjobs.decide(cronjob("* * * * *"), [], at(5 * 365 * 24 * 3600 + 7))
    assert decision.create is not None
    assert decision.status["lastScheduleTime"] == rfc3339(at(5 * 365 * 24 * 3600))
    assert decision.events[0][1] == "TooManyMissedTimes"
