"""What keeps the history, with programs in place of the writer: it comes, it goes, and it never ends the stack."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from penstock.engine.history import scheduler as keepers
from penstock.engine.history.progress_file import FLUSH_REQUEST
from penstock.engine.history.scheduler import HistoryScheduler
from penstock.engine.processes.supervisor import Watch
from penstock.history.writer.plan import Urgency
from penstock.settings import Settings
from tests.waiting import until

SAY = (
    "import json,os,sys; said=lambda name: sys.argv[sys.argv.index(name)+1]; "
    'fd=int(said("--notify-fd")); how=said("--urgency"); '
)


class Told:
    """A record that remembers."""

    def __init__(self) -> None:
        self.watches: dict[str, Watch] = {}
        self.remarks: list[str] = []
        self.states: list[str] = []
        self.problems: list[str] = []

    def write(self) -> None:
        state = self.watches["history"].state
        if self.states[-1:] != [state]:
            self.states.append(state)
        if problem := self.watches["history"].details.get("problem"):
            self.problems.append(problem)

    def remark(self, watch: Watch, text: str) -> None:
        self.remarks.append(text)


class Trial(HistoryScheduler):
    """A keeper that is told what it would see, and runs a program of the test."""

    def __init__(self, folder: Path, program: str, looks: list[Urgency]) -> None:
        self.told, self.runs, self.looked = Told(), 0, 0
        (folder / "logs").mkdir()
        (folder / "run").mkdir()
        super().__init__(Settings(data_dir=folder), folder / "settings.json", dict(os.environ), self.told)
        self._program, self._looks = program, looks

    def _look(self, asked: bool) -> Urgency:
        if asked:
            return "write"
        self.looked += bool(self._looks)
        return self._looks.pop(0) if self._looks else "rest"

    async def _command(self) -> list[str]:
        self.runs += 1
        return [sys.executable, "-c", SAY + self._program]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_SECONDS", "IDLE_LOOK_SECONDS", "HURRY_LOOK_SECONDS", "REQUEST_SECONDS"):
        monkeypatch.setattr(keepers, name, 0.05)
    monkeypatch.setattr(keepers, "RETRY_SECONDS", (0.05,))


async def run_until(keeper: Trial, enough: str) -> None:
    """Runs the keeper until an expression over it is true."""
    stopping, ready = asyncio.Event(), asyncio.Event()
    ready.set()
    running = asyncio.create_task(keeper.run(stopping, ready))
    await until(lambda: eval(enough, {"keeper": keeper}))
    stopping.set()
    await running


async def test_it_writes_when_it_is_time_and_rests_otherwise(tmp_path: Path) -> None:
    done = 'os.write(fd, json.dumps({"event": "status", "records": 7, "how": how}).encode() + b"\\n")'
    keeper = Trial(tmp_path, done, ["rest", "write", "rest"])
    await run_until(keeper, "keeper.told.states[-3:] == ['resting', 'writing', 'resting']")
    assert keeper.told.watches["history"].details == {"records": 7, "how": "write"}
    assert keeper.told.watches["history"].child is None
    assert (keeper.runs, keeper.told.remarks) == (1, [])


async def test_it_writes_when_somebody_asks(tmp_path: Path) -> None:
    keeper = Trial(tmp_path, "", [])
    (tmp_path / FLUSH_REQUEST).touch()
    await run_until(keeper, "keeper.runs == 1 and keeper.told.states[-1] == 'resting'")
    assert not (tmp_path / FLUSH_REQUEST).exists()


async def test_a_failure_is_told_once_and_tried_again(tmp_path: Path) -> None:
    fails = 'os.write(fd, json.dumps({"event": "fail", "reason": "no room"}).encode() + b"\\n"); sys.exit(1)'
    keeper = Trial(tmp_path, fails, ["write"] * 50)
    await run_until(keeper, "'history' in keeper.told.watches and keeper.told.watches['history'].restarts >= 3")
    (remark,) = keeper.told.remarks
    assert "no room" in remark
    assert "Deliveries continue" in remark


async def test_it_goes_on_when_what_was_wrong_is_mended(tmp_path: Path) -> None:
    fails = 'os.write(fd, json.dumps({"event": "fail", "reason": "the disk is full"}).encode() + b"\\n"), sys.exit(1)'
    once = f"path = {str(tmp_path / 'tried')!r}; mended = os.path.exists(path); open(path, 'w').close(); "
    keeper = Trial(tmp_path, f"{once} mended or ({fails})", ["write"] * 50)
    await run_until(keeper, "keeper.told.states[:5] == ['resting', *['writing', 'resting'] * 2]")
    assert set(keeper.told.problems) == {"the disk is full"}
    assert "problem" not in keeper.told.watches["history"].details


async def test_what_is_not_in_the_tables_is_told(tmp_path: Path) -> None:
    said = '[{"event": "status", "begun_anew": "events"}, {"event": "status", "table": "events", "lost": 3}]'
    keeper = Trial(tmp_path, f"[os.write(fd, json.dumps(one).encode() + b'\\n') for one in {said}]", ["write"])
    await run_until(keeper, "keeper.told.states[-3:] == ['resting', 'writing', 'resting']")
    gone, lost = keeper.told.remarks
    assert gone.startswith("these tables are gone: events")
    assert lost.startswith("Kafka removed 3 records")


async def test_it_hurries_before_retention_takes_something(tmp_path: Path) -> None:
    slow = "__import__('time').sleep(600 if how == 'write' else 0)"
    keeper = Trial(tmp_path, slow, ["write", "rest", "hurry"])
    await run_until(keeper, "keeper.runs == 2 and keeper.told.states[-1] == 'resting'")
    assert "full priority" in keeper.told.remarks[0]


async def test_a_writer_with_time_is_asked_to_rest_no_more_before_it_has_to_hurry(tmp_path: Path) -> None:
    asked = f"os.path.exists({str(tmp_path / FLUSH_REQUEST)!r})"
    waits = f"[__import__('time').sleep(0.01) for _ in iter(lambda: how != 'leisure' or {asked}, True)]"
    keeper = Trial(tmp_path, waits, ["leisure", "leisure", "write"])
    await run_until(keeper, "keeper.told.states == ['resting', *['writing', 'resting'] * 2]")
    assert (keeper.runs, keeper.told.remarks) == (2, []), "it ends by itself, and what came meanwhile is written too"


async def test_a_writer_that_need_not_hurry_any_more_is_told(tmp_path: Path) -> None:
    told = "import signal; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0)); "
    begun = 'os.write(fd, json.dumps({"event": "ready"}).encode() + b"\\n"); signal.pause()'
    keeper = Trial(tmp_path, told + begun, ["hurry", "leisure", "hurry", "write", "leisure", "leisure"])
    await run_until(keeper, "keeper.told.states == ['resting', 'writing', 'resting']")
    assert (keeper.runs, keeper.told.problems, keeper.looked) == (1, [], 6)


async def test_a_stop_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    keeper = Trial(tmp_path, "__import__('time').sleep(600)", ["write"])
    await run_until(keeper, "keeper.told.states[-1:] == ['writing']")
    assert keeper.told.watches["history"].child is None
    assert keeper.told.remarks == []
