"""Tasks that are not heard of are noticed, and helped where that is possible."""

from __future__ import annotations

from penstock.dispatcher.service import HANGING_SECONDS, START_SECONDS, LivenessVerdict, TaskLiveness


def test_tasks_may_take_their_time_to_start() -> None:
    guard = TaskLiveness(2)
    assert guard.evaluate(100.0, alive=0, running=2) is LivenessVerdict.ALIVE
    assert guard.evaluate(100.0 + START_SECONDS, alive=1, running=2) is LivenessVerdict.ALIVE
    assert guard.evaluate(101.0 + START_SECONDS, alive=1, running=2) is LivenessVerdict.RESTART


def test_a_task_that_falls_silent_is_started_again_unless_it_is_heard_of_in_time() -> None:
    guard = TaskLiveness(2)
    guard.evaluate(100.0, alive=2, running=2)
    assert guard.evaluate(110.0, alive=1, running=2) is LivenessVerdict.ALIVE
    assert guard.evaluate(120.0, alive=2, running=2) is LivenessVerdict.ALIVE
    assert guard.evaluate(130.0, alive=1, running=2) is LivenessVerdict.ALIVE
    assert guard.evaluate(131.0 + HANGING_SECONDS, alive=1, running=2) is LivenessVerdict.RESTART


def test_a_task_without_a_slot_is_told_and_the_others_are_left_alone() -> None:
    guard = TaskLiveness(2)
    guard.evaluate(100.0, alive=1, running=1)
    assert guard.evaluate(101.0 + HANGING_SECONDS, alive=1, running=1) is LivenessVerdict.NO_SLOT
    assert guard.evaluate(101.0 + START_SECONDS, alive=1, running=1) is LivenessVerdict.NO_SLOT
    assert guard.evaluate(102.0 + START_SECONDS, alive=2, running=2) is LivenessVerdict.ALIVE


def test_what_spark_does_not_tell_counts_as_running() -> None:
    guard = TaskLiveness(1)
    guard.evaluate(100.0, alive=0, running=None)
    assert guard.evaluate(101.0 + START_SECONDS, alive=0, running=None) is LivenessVerdict.RESTART


def test_time_without_kafka_and_the_time_of_another_job_do_not_count() -> None:
    guard = TaskLiveness(1)
    guard.evaluate(100.0, alive=1, running=1)
    guard.evaluate(110.0, alive=0, running=1)
    guard.reset()
    assert guard.evaluate(200.0, alive=0, running=1) is LivenessVerdict.ALIVE
    guard.begin()
    assert guard.evaluate(300.0, alive=0, running=1) is LivenessVerdict.ALIVE
    assert guard.evaluate(300.0 + START_SECONDS, alive=0, running=1) is LivenessVerdict.ALIVE
