"""The clock of single processes is set, of what they wait for as well, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.chaos.__main__ import main
from tools.chaos.clocks import COMPILER, DAYS, MINUTES, OFFSETS, PARTS, ClockSteps, named, set_clock

MOMENTS = """
import sys, time, threading
for line in sys.stdin:
    began = time.monotonic()
    time.sleep(0.05)
    threading.Event().wait(0.05)
    print(time.time(), time.monotonic() - began, flush=True)
"""


def test_steps_have_names() -> None:
    assert named("kafka", 0, MINUTES) == "the clock of kafka set forward by 10 minutes"
    assert named("kafka", -DAYS, 0) == "the clock of kafka set forward by 8 days, to the right time"
    assert named("the machine", MINUTES, 0) == "the clock of the machine set back by 10 minutes, to the right time"


def test_each_part_is_set_forward_and_back_by_minutes_and_days_and_left_right() -> None:
    steps = {after - before for before, after in zip((0, *OFFSETS), OFFSETS, strict=False)}
    assert steps == {MINUTES, -MINUTES, DAYS, -DAYS}
    assert OFFSETS[-1] == 0
    assert len({ClockSteps(name).what for name in PARTS}) == len(PARTS)


def test_without_a_compiler_the_tool_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("sys.argv", ["chaos", "--faults", "clock-machine"])
    assert main() == 2
    assert "clock-machine cannot be tried here: cc is not installed (Debian: apt-get install gcc" in (
        capsys.readouterr().err
    )


@pytest.mark.skipif(ClockSteps("clock-machine").missing() is not None, reason=f"no {COMPILER}, or not Linux")
def test_a_clock_is_set_for_one_process_or_for_all_and_waits_stay_as_long(tmp_path: Path) -> None:
    def process() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", MOMENTS]
        return subprocess.Popen(
            command, env={**os.environ, **around}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def offset(one: subprocess.Popen[str]) -> int:
        assert one.stdin is not None
        assert one.stdout is not None
        one.stdin.write("\n")
        one.stdin.flush()
        wall, waited = map(float, one.stdout.readline().split())
        assert 0.1 <= waited < 30
        return round((wall - time.time()) / 60) * 60

    with ClockSteps("clock-machine").surroundings(tmp_path / "data") as around, process() as first, process() as second:
        assert (offset(first), offset(second)) == (0, 0)
        set_clock(tmp_path / "clocks", "all", DAYS)
        assert (offset(first), offset(second)) == (DAYS, DAYS)
        set_clock(tmp_path / "clocks", str(second.pid), -MINUTES)
        assert (offset(first), offset(second)) == (DAYS, DAYS - MINUTES)
