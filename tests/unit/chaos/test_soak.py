"""The soak run: what its Replays must deliver, what it restarts, and what its report shows."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tools.chaos import report, routes
from tools.chaos.books import NEVER, Books
from tools.chaos.checker import Era, Expected, check
from tools.chaos.events import COMMON, LEFT, type_of
from tools.chaos.plan import VICTIMS, Way
from tools.chaos.receiver import Receiver, data_of, headers_of
from tools.chaos.results import SOAK, Result, Step
from tools.chaos.soak import CLOCKS_SECONDS, REPLAY_TARGETS, Replay, Soak, replay, restarts, succeeded

ORDERED = next(route for route in routes.STEADY if route.name == "ordered")


def test_parts_are_ended_and_not_frozen_and_the_seed_decides() -> None:
    found = restarts(7, 20)
    assert len(found) == 20
    assert {fault.victim for fault in found} <= set(VICTIMS)
    assert Way.FREEZE not in {fault.way for fault in found}
    assert restarts(7, 5) == found[:5]


@pytest.mark.parametrize(("minutes", "count"), [(2, 2), (45, 7), (480, 79)])
def test_restarts_leave_time_before_the_end(minutes: int, count: int) -> None:
    assert len(Soak(7, minutes * 60).restarts) == count


def test_replays_take_their_targets_in_turn_and_begin_with_the_load() -> None:
    made = [replay(number, 1000.0, 950.0) for number in range(len(REPLAY_TARGETS))]
    assert [one.target.name for one in made] == list(REPLAY_TARGETS)
    assert {one.begin for one in made} == {950.0}
    assert replay(0, 1000.0, 10.0).begin == 880.0
    assert len({one.name for one in made}) == len(made)


def test_a_replay_asks_for_its_window_by_the_wall_clock() -> None:
    made = Replay("replay-1", ORDERED, 100.0, 160.5).manifest(200.0, 1_763_596_800.0)
    assert made["spec"] == {
        "target": {"kind": "Trigger", "name": "chaos-ordered"},
        "from": "2025-11-19T23:58:20.000Z",
        "to": "2025-11-19T23:59:20.500Z",
    }


def test_a_replay_owes_what_was_surely_accepted_in_its_window_and_nothing_from_outside() -> None:
    number = next(n for n in range(100) if type_of(n) == COMMON)
    expected = Replay("replay-1", ORDERED, 100.0, 160.0).expected()

    def findings(at: float, *, delivered: bool) -> tuple[int, int]:
        books = Books()
        books.sent.begin(number, at)
        books.sent.accept(number, at)
        if delivered:
            books.at("replay-1").attempt(str(number), 1)
            books.at("replay-1").succeed(str(number), 2)
        found = check(books, [expected])
        return len(found.lost), len(found.strangers)

    assert findings(130.0, delivered=False) == (1, 0)
    assert findings(130.0, delivered=True) == (0, 0)
    for edge in (100.0, 160.0):
        assert findings(edge - CLOCKS_SECONDS / 2, delivered=False) == (0, 0)
        assert findings(edge + CLOCKS_SECONDS / 2, delivered=True) == (0, 0)
    for outside in (90.0, 170.0):
        assert findings(outside, delivered=False) == (0, 0)
        assert findings(outside, delivered=True) == (0, 1)


def test_a_replay_runs_until_it_has_succeeded_or_failed() -> None:
    assert succeeded({}) is None
    for status, verdict in (("Unknown", None), ("True", True), ("False", False)):
        assert succeeded({"status": {"conditions": [{"type": "Succeeded", "status": status}]}}) is verdict


def test_the_filter_in_force_is_found_among_hundreds() -> None:
    kinds = (frozenset({COMMON}), frozenset({LEFT}))
    eras = [Era(kinds[n % 2], n * 10.0, n * 10.0 + 2, n * 10.0 + 9, n * 10.0 + 12) for n in range(300)]
    eras[-1].settled = eras[-1].replaced = NEVER
    expected = Expected("changing", eras)
    for tenth in range(0, 31000, 7):
        sent = tenth / 10
        for kind in (COMMON, LEFT):
            must = any(kind in one.types and sent >= one.in_force and sent + 0.5 <= one.settled for one in eras)
            may = any(kind in one.types and sent <= one.replaced for one in eras)
            assert expected.must_take(kind, sent, sent + 0.5) == must
            assert expected.may_take(kind, sent, sent + 0.5) == may


def test_the_report_shows_restarts_replays_and_totals(tmp_path: Path) -> None:
    result = Result(7, 20.0, 0, SOAK, accepted=54_000, changed=2_600, replays=14)
    result.steps.append(Step("kafka, SIGTERM", 360.0, 4.0, 5.0))
    report.write(result, tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "| lost | 0 |" in text
    assert "| 6 min | kafka, SIGTERM | 4.0 s | 5.0 s |  |" in text
    assert "| Replays | 14 |" in text
    assert "| route changes of all kinds | 2,600 |" in text


def test_what_a_replay_delivers_is_written_down_under_its_name() -> None:
    books, seen = Books(), []
    number = next(n for n in range(100) if type_of(n) == COMMON)

    async def deliver() -> None:
        receiver = Receiver(books, random.Random(1), lambda name, number, at: seen.append(name))
        await receiver.start()
        try:
            for extra in ({}, {"ce-penstockreplay": "replay-3"}):
                reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
                headers = {**headers_of(number), **extra, "content-length": str(len(data_of(number)))}
                lines = ["POST /ordered HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
                writer.write("\r\n".join(lines).encode() + data_of(number))
                assert b" 202 " in await reader.readline()
                writer.close()
        finally:
            receiver.close()

    asyncio.run(deliver())
    assert seen == ["ordered", "replay-3"]
    assert (books.at("ordered").taken(str(number)), books.at("replay-3").taken(str(number))) == (1, 1)
