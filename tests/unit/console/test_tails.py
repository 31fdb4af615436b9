"""Following what comes: one reader for all who look, a sample where there is too much, and an end when nobody looks."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.console.events.archive import Archive
from penstock.console.events.backtests import Backtests
from penstock.console.events.playground_page import predicate_of
from penstock.console.events.tail_page import shape
from penstock.console.events.tails import (
    PER_SECOND,
    Nothing,
    Sampled,
    ShownRecord,
    Tails,
    Unreachable,
    Viewer,
    is_marker,
    step,
)
from penstock.contract import topics
from penstock.filters.predicate import Everything
from penstock.history.reader.history import History
from penstock.history.reader.questions import EventFilter
from penstock.kafka.live import LiveSelection
from penstock.kafka.ranges import LogRecord
from penstock.kafka.topic_ends import KafkaAway
from penstock.runtime.errors import UserError
from penstock.settings import Settings
from tests.written import KeptRecords, event

ALL = LiveSelection(Everything())


class Topic:
    """A topic that grows when the test says so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: list[tuple[str, LogRecord]] = []
        self._away = False
        self.opened = self.left_out = 0
        self.closed = threading.Event()

    def add(self, *records: LogRecord) -> None:
        with self._lock:
            self._new += [(topics.EVENTS, record) for record in records]

    def lose(self) -> None:
        with self._lock:
            self._away = True

    def poll(self, seconds: float) -> list[tuple[str, LogRecord]]:
        with self._lock:
            if self._away:
                raise KafkaAway("nobody answers")
            found, self._new = self._new, []
            return found

    def leave_out(self, seconds: float) -> dict[str, int]:
        with self._lock:
            found, self._new = self._new, []
            self.left_out += len(found)
            return {topics.EVENTS: len(found)}

    @contextlib.contextmanager
    def follow(self, *names: str) -> Iterator[Topic]:
        self.opened += 1
        try:
            yield self
        finally:
            self.closed.set()


async def test_all_who_look_share_one_reader_that_ends_with_the_last() -> None:
    topic, stopping = Topic(), asyncio.Event()
    tails = Tails(topic.follow, stopping)
    one, other = tails.watch(ALL, False), tails.watch(LiveSelection(predicate_of("type=x")), False)
    waiting = asyncio.ensure_future(anext(other))
    topic.add(event(0, "a"), event(1, "b", kind="x"))
    async with asyncio.timeout(60):
        found = await anext(one)
        assert isinstance(found, ShownRecord)
        assert found.record.offset == 0
        selected = await waiting
        assert isinstance(selected, ShownRecord)
        assert selected.record.offset == 1
        assert topic.opened == 1
        await one.aclose()
        await other.aclose()
        await asyncio.to_thread(topic.closed.wait, 60)
    await tails.close()


async def test_the_stop_of_the_console_ends_every_stream() -> None:
    topic, stopping = Topic(), asyncio.Event()
    tails = Tails(topic.follow, stopping)

    async def look() -> list[object]:
        return [message async for message in tails.watch(ALL, False)]

    looking = asyncio.ensure_future(look())
    await asyncio.sleep(0)
    stopping.set()
    async with asyncio.timeout(60):
        assert await looking == [Nothing()]
        await tails.close()


async def test_a_kafka_that_is_away_is_told() -> None:
    topic, stopping = Topic(), asyncio.Event()
    topic.lose()
    tails = Tails(topic.follow, stopping)
    watching = tails.watch(ALL, False)
    async with asyncio.timeout(60):
        assert await anext(watching) == Unreachable("nobody answers")
        stopping.set()
        await watching.aclose()
        await tails.close()


async def test_what_ends_the_reader_reaches_who_looks() -> None:
    class Broken(Topic):
        def poll(self, seconds: float) -> list[tuple[str, LogRecord]]:
            raise ValueError("broken")

    tails = Tails(Broken().follow, asyncio.Event())
    with pytest.raises(ValueError, match="broken"):
        await anext(tails.watch(ALL, False))
    await tails.close()


async def test_more_than_one_can_read_is_a_sample_that_says_so() -> None:
    now = [100.0]
    viewer = Viewer(ALL, False, lambda: now[0])
    shown = viewer.look_at([event(number, f"e{number}") for number in range(5000)])
    assert len(shown) == PER_SECOND
    now[0] = 101.0
    assert viewer.look_at([]) == [Sampled(PER_SECOND, 5000)]
    assert shape(Sampled(PER_SECOND, 5000), False) == {"sample": {"shown": PER_SECOND, "of": 5000}}


def test_what_nobody_would_be_shown_is_not_read() -> None:
    now, topic = [100.0], Topic()
    one, other = (Viewer(ALL, False, lambda: now[0]) for _ in range(2))
    topic.add(*(event(number, f"e{number}") for number in range(30)))
    assert [len(messages) for _, messages in step(topic, [one, other])] == [PER_SECOND, PER_SECOND]
    topic.add(*(event(number, f"e{number}") for number in range(30, 100)))
    assert [messages for _, messages in step(topic, [one, other])] == [[], []]
    assert topic.left_out == 70
    now[0] = 101.0
    assert [messages for _, messages in step(topic, [one, other])] == [[Sampled(PER_SECOND, 100)]] * 2


def test_who_looks_for_something_has_everything_read() -> None:
    topic, wanted = Topic(), Viewer(LiveSelection(predicate_of("type=x")), False)
    topic.add(*(event(number, f"e{number}") for number in range(30)))
    step(topic, [Viewer(ALL, False), wanted])
    topic.add(event(30, "rare", kind="x"))
    [_, (_, messages)] = step(topic, [Viewer(ALL, False), wanted])
    assert [one.record.offset for one in messages if isinstance(one, ShownRecord)] == [30]
    assert topic.left_out == 0


def test_lines_for_a_script_and_nothing_for_markers() -> None:
    marker = LogRecord(0, 1, 0, None, [("penstock_marker", b"1:1:1")], None)
    assert is_marker(marker)
    assert shape(ShownRecord(marker), False) is None
    line = shape(ShownRecord(event(0, "a")), False)
    assert line is not None
    assert (line["href"], line["id"], line["more"]) == ("/events/0/0", "a", '{"a": 1}')
    assert shape(ShownRecord(LogRecord(0, 1, 0, None, [], b"no attempt")), True) is None
    assert shape(Nothing(), True) == {"beat": True}
    assert shape(Unreachable("x"), True) == {"problem": "Kafka cannot be read: x."}


async def test_the_archive_stays_open_while_it_is_asked(tmp_path: Path) -> None:
    records, settings, now = [event(0, "a")], Settings(data_dir=tmp_path, partitions=1), [0.0]
    opened: list[KeptRecords] = []

    def open_history() -> History:
        opened.append(KeptRecords(events=records))
        return History(settings, lambda _: opened[-1])

    archive = Archive(open_history, lambda: now[0])

    async def count() -> int:
        return await archive.ask(lambda history: len(history.events(EventFilter())))

    assert await count() == 1
    records.append(event(1, "b"))
    opened[0].topics["penstock.events"].append(records[1])
    now[0] = 5.0
    assert (await count(), len(opened)) == (2, 1)
    now[0] = 500.0
    assert (await count(), len(opened)) == (2, 2)
    with pytest.raises(UserError, match="nonsense"):
        await archive.ask(lambda history: history.events(EventFilter(where="nonsense")))
    await archive.close()


async def test_a_backtest_has_an_end_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = Backtests(Settings(data_dir=tmp_path))
    assert tests.command("1h", "default")[-3:] == ["--since=1h", "--namespace=default", f"--data-dir={tmp_path}"]
    script = "import sys; sys.stdin.read(); print('{\"triggers\": []}')"
    monkeypatch.setattr(Backtests, "command", lambda self, since, namespace: [sys.executable, "-c", script])
    async with asyncio.timeout(60):
        test = tests.start("kind: Trigger", "1h", "default")
        with pytest.raises(UserError, match="Another backtest is running"):
            tests.start("", "1h", "default")
        await tests.ended()
        assert (test.report, tests.find(test.id)) == ({"triggers": []}, test)
        fails = "import sys; sys.exit('no such Broker')"
        monkeypatch.setattr(Backtests, "command", lambda self, since, namespace: [sys.executable, "-c", fails])
        failed = tests.start("", "1h", "default")
        await tests.ended()
        assert failed.problem == "no such Broker"
        sleeps = "import time; time.sleep(600)"
        monkeypatch.setattr(Backtests, "command", lambda self, since, namespace: [sys.executable, "-c", sleeps])
        stopped = tests.start("", "1h", "default")
        await asyncio.sleep(0)
        await tests.close()
        assert stopped.problem == "The console was stopped."
