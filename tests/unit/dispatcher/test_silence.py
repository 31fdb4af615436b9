"""Tasks that are not heard of are noticed, and helped where that is possible."""

from __future__ import annotations

from penstock.dispatcher.service import HANGING_SECONDS, START_SECONDS, SilenceGuard, SilenceVerdict


def test_tasks_may_take_their_time_to_start() -> None:
    guard = SilenceGuard(2)
    assert guard.judge(100.0, alive=0, running=2) is SilenceVerdict.GO_ON
    assert guard.judge(100.0 + START_SECONDS, alive=1, running=2) is SilenceVerdict.GO_ON
    assert guard.judge(101.0 + START_SECONDS, alive=1, running=2) is SilenceVerdict.RESTART


def test_a_task_that_falls_silent_is_started_again_unless_it_is_heard_of_in_time() -> None:
    guard = SilenceGuard(2)
    guard.judge(100.0, alive=2, running=2)
    assert guard.judge(110.0, alive=1, running=2) is SilenceVerdict.GO_ON
    assert guard.judge(120.0, alive=2, running=2) is SilenceVerdict.GO_ON
    assert guard.judge(130.0, alive=1, running=2) is SilenceVerdict.GO_ON
    assert guard.judge(131.0 + HANGING_SECONDS, alive=1, running=2) is SilenceVerdict.RESTART


def test_a_task_without_a_slot_is_told_and_the_others_are_left_alone() -> None:
    guard = SilenceGuard(2)
    guard.judge(100.0, alive=1, running=1)
    assert guard.judge(101.0 + HANGING_SECONDS, alive=1, running=1) is SilenceVerdict.TELL
    assert guard.judge(101.0 + START_SECONDS, alive=1, running=1) is SilenceVerdict.TELL
    assert guard.judge(102.0 + START_SECONDS, alive=2, running=2) is SilenceVerdict.GO_ON


def test_what_spark_does_not_tell_counts_as_running() -> None:
    guard = SilenceGuard(1)
    guard.judge(100.0, alive=0, running=None)
    assert guard.judge(101.0 + START_SECONDS, alive=0, running=None) is SilenceVerdict.RESTART


def test_time_without_kafka_and_the_time_of_another_job_do_not_count() -> None:
    guard = SilenceGuard(1)
    guard.judge(100.0, alive=1, running=1)
    guard.judge(110.0, alive=0, running=1)
    guard.excuse()
    assert guard.judge(200.0, alive=0, running=1) is SilenceVerdict.GO_ON
    guard.begin()
    assert guard.judge(300.0, alive=0, running=1) is SilenceVerdict.GO_ON
    assert guard.judge(300.0 + START_SECONDS, alive=0, running=1) is SilenceVerdict.GO_ON
