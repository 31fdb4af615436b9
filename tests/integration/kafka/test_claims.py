"""Claims on a real Kafka: one holder, at once after a release, after silence otherwise, with epochs that grow."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.kafka import claims
from penstock.kafka.claims import LogClaim, take_epoch
from penstock.settings import Settings


class Process:
    """One that claims a role, and what it was told."""

    def __init__(self, settings: Settings, role: str, name: str) -> None:
        self.has, self.lost = threading.Event(), threading.Event()
        self.epoch, self.why, self.failures = -1, "", list[BaseException]()
        self.claim = LogClaim(settings, role, name, taken=self._taken, lost=self._lost, failed=self.failures.append)
        self.claim.start()

    def _taken(self, epoch: int) -> None:
        self.epoch = epoch
        self.has.set()

    def _lost(self, why: str) -> None:
        self.why = why
        self.lost.set()


@pytest.fixture
def role(request: pytest.FixtureRequest) -> str:
    """A role that no other test has."""
    return f"{request.node.name}-{time.time_ns()}"


def test_the_role_goes_to_the_next_at_once_when_it_is_given_back(kafka: Settings, role: str) -> None:
    first = Process(kafka, role, "first")
    assert first.has.wait(60)
    second = Process(kafka, role, "second")
    assert not second.has.wait(3)
    first.claim.release()
    assert second.has.wait(60)
    assert second.epoch > first.epoch
    second.claim.release()
    assert [*first.failures, *second.failures] == []
    assert not first.lost.is_set()


def test_one_that_falls_silent_is_followed_and_ends_when_it_wakes(
    kafka: Settings, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "TAKE_SECONDS", 4.0)
    monkeypatch.setattr(claims, "STOP_SECONDS", 600.0)  # so that it hears of it from Kafka, not from its clock
    first = Process(kafka, role, "first")
    assert first.has.wait(60)
    awake = threading.Event()
    turn = first.claim._read

    def frozen(consumer: object) -> None:
        awake.wait()
        turn(consumer)  # type: ignore[arg-type]

    monkeypatch.setattr(first.claim, "_read", frozen)
    second = Process(kafka, role, "second")
    assert second.has.wait(60)
    awake.set()
    assert first.lost.wait(60)
    assert first.why == "second has taken it"
    second.claim.release()


def test_one_of_the_same_name_takes_its_own_place_and_the_one_before_is_told(kafka: Settings, role: str) -> None:
    before = Process(kafka, role, "host-pipeline")
    assert before.has.wait(60)
    after = Process(kafka, role, "host-pipeline")
    assert after.has.wait(60)
    assert before.lost.wait(60)
    assert after.epoch > before.epoch
    after.claim.release()


def test_who_was_chosen_elsewhere_gets_a_greater_epoch_each_time(kafka: Settings, role: str) -> None:
    epochs = [take_epoch(kafka, role, "by a Lease") for _ in range(3)]
    assert epochs == sorted(set(epochs))
