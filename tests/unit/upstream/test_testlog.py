"""What test2json writes, and what is made of it."""

from __future__ import annotations

import json
from typing import Any

from tools.upstream.testlog import Ended, TestLog


def lines(*told: tuple[str, str] | dict[str, Any]) -> list[bytes]:
    plain = [line if isinstance(line, dict) else {"Action": line[0], "Test": line[1]} for line in told]
    return [json.dumps({"Time": "2026-01-20T10:00:00Z", "Package": "rekt", **line}).encode() + b"\n" for line in plain]


def read(log: TestLog, *told: tuple[str, str] | dict[str, Any]) -> list[Ended]:
    return [ended for line in lines(*told) if (ended := log.read(line))]


def test_a_test_ends_with_its_time_its_output_and_its_steps() -> None:
    log = TestLog()
    assert read(log, {"Action": "start"}, ("run", "TestA"), ("run", "TestA/f/Assert/x")) == []
    assert log.running == ["TestA"]
    [ended] = read(
        log,
        {"Action": "output", "Test": "TestA/f/Assert/x", "Output": "an event\n"},
        {"Action": "output", "Test": "TestA", "Output": "done\n"},
        *(("pass", test) for test in ("TestA/f/Assert/x", "TestA/f/Assert", "TestA/f")),
        ("skip", "TestA/f/Teardown"),
        {"Action": "pass", "Test": "TestA", "Elapsed": 2.5},
        {"Action": "pass", "Elapsed": 3},
    )
    assert ended == Ended("TestA", "passed", 2.5, passed_steps=1, skipped_steps=1, output="an event\ndone\n")
    assert log.running == []
    assert log.ended == {"TestA": ended}


def test_tests_that_run_side_by_side_are_kept_apart() -> None:
    log = TestLog()
    ended = read(
        log,
        *(("run", "TestA"), ("pause", "TestA"), ("run", "TestB"), ("cont", "TestA")),
        *(("fail", "TestB/f/Setup/x"), ("pass", "TestA/f/Assert/x")),
        *(("pass", "TestA"), ("fail", "TestB")),
    )
    assert [(one.test, one.outcome) for one in ended] == [("TestA", "passed"), ("TestB", "failed")]


def test_a_test_whose_prerequisite_does_not_hold_is_skipped_although_go_counts_it_as_passed() -> None:
    steps = [
        ("run", "TestTLS"),
        ("pass", "TestTLS/f/Prerequisite/should not run when Istio is enabled"),
        ("skip", "TestTLS/f/Prerequisite/transport encryption is strict"),
        ("pass", "TestTLS/f/Prerequisite"),
        *(("skip", f"TestTLS/f/{timing}") for timing in ("Setup", "Requirement", "Assert", "Teardown")),
        ("pass", "TestTLS/f"),
        ("pass", "TestTLS"),
    ]
    [ended] = read(TestLog(), *steps)
    assert (ended.outcome, ended.passed_steps) == ("skipped", 0)


def test_a_test_with_steps_beside_the_skipped_ones_has_passed() -> None:
    steps = [("run", "TestA"), ("skip", "TestA/f/Assert/may"), ("pass", "TestA/f/Assert/must"), ("pass", "TestA")]
    [ended] = read(TestLog(), *steps)
    assert (ended.outcome, ended.passed_steps, ended.skipped_steps) == ("passed", 1, 1)


def test_a_test_without_steps_is_what_go_says() -> None:
    ended = read(TestLog(), ("run", "TestA"), ("pass", "TestA"), ("run", "TestB"), ("skip", "TestB"))
    assert [one.outcome for one in ended] == ["passed", "skipped"]


def test_what_a_panic_cut_off_has_failed() -> None:
    log = TestLog()
    read(log, ("run", "TestA"), ("run", "TestB"), ("pass", "TestB"), {"Action": "output", "Output": "panic: x\n"})
    assert log.read(b"exit status 2\n") is None
    [ended] = log.close(9.0)
    assert (ended.test, ended.outcome, ended.seconds) == ("TestA", "failed", 9.0)
    assert log.stray == ["panic: x\n", "exit status 2\n"]
    assert log.close(9.0) == []
