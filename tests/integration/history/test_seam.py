"""Questions while events come and the writer writes: what the table has and what Kafka has meet without a seam."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.engine.history.writer import HistoryWriter, by_arrow
from penstock.history.reader.history import History
from penstock.history.reader.questions import EventFilter
from penstock.history.writer import upkeep
from penstock.settings import Settings
from tests.integration.history.topics_of_test import send_attempts, send_events

KIND = "seam"
QUESTIONS = 12


def test_nothing_is_missing_or_twice_while_events_come_and_are_written(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MANY_SMALL", 2)
    done, stored, tried = threading.Event(), send_events(settings, 60, KIND), list[str]()
    send_attempts(settings, stored)

    def send() -> None:
        while not done.is_set():
            ids = send_events(settings, 60, KIND)
            stored.extend(ids)  # each is there for every question that is asked from now on
            send_attempts(settings, ids)
            tried.extend(ids)

    def write() -> None:
        writer = HistoryWriter(settings, by_arrow(settings))
        while not done.is_set():
            writer.write()
            writer.maintain()

    def until_done(work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            done.set()

    with ThreadPoolExecutor(2) as threads:
        working = [threads.submit(until_done, work) for work in (send, write)]
        try:
            versions = list[int]()
            while not done.is_set() and not (len(versions) >= QUESTIONS and len(set(versions)) > 2):
                versions.append(ask(settings, stored, tried))
        finally:
            done.set()
        for work in working:
            work.result(120)
    assert len(versions) >= QUESTIONS
    assert len(set(versions)) > 2, "the table grew between the questions"
    assert ask(settings, stored, tried) >= versions[-1]
    assert len(stored) > 60


def ask(settings: Settings, stored: list[str], tried: list[str]) -> int:
    """Asks in every way; the version of the table that took part in the answers."""
    events, attempts = set(stored), set(tried)
    with History(settings) as history:
        found = Counter(row["id"] for row in history.sql(f"select id from events where type = '{KIND}'").to_pylist())
        known = Counter(row["id"] for row in history.sql("select id from attempts").to_pylist())
        listed = Counter(event.id for event in history.events(EventFilter(type=KIND, limit=1_000_000)))
        traced = [history.trace(ident) for ident in list(events)[:3]]
        (state, _) = history.state()
    for what, answer, expected in (
        ("events", found, events),
        ("attempts", known, attempts),
        ("listed", listed, events),
    ):
        assert not expected - answer.keys(), f"{what}: missing"
        assert not [ident for ident in expected if answer[ident] != 1], f"{what}: twice"
    assert found == listed
    assert [len(one) for one in traced] == [1] * len(traced)
    return state.version if state.version is not None else -1
