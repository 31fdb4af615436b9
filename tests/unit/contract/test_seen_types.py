"""Types of events that pass: told once in a while, never without end, and not at all where nobody asks."""

from __future__ import annotations

from penstock.contract.reports import AGAIN_SECONDS, LONGEST, MOST, SeenType, SeenTypes
from penstock.events.event import CloudEvent


class Told:
    def __init__(self) -> None:
        self.now = 0.0
        self.seen: list[SeenType] = []
        self.types = SeenTypes(self.seen.append, lambda: self.now)

    def note(self, kind: str, source: str = "/s", **more: str) -> None:
        self.types.note("u", [CloudEvent({"specversion": "1.0", "id": "1", "source": source, "type": kind, **more})])

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(one.type, one.source) for one in self.seen]


def test_each_type_of_a_source_is_told_once_and_again_after_a_while() -> None:
    told = Told()
    for _ in range(3):
        told.note("a")
        told.note("a", "/other")
        told.note("b", dataschema="http://schema")
    assert told.told == [("a", "/s"), ("a", "/other"), ("b", "/s")]
    assert (told.seen[2].target, told.seen[2].schema, told.seen[2].specversion) == ("u", "http://schema", "1.0")
    told.now = AGAIN_SECONDS
    told.note("a")
    assert told.told[3:] == [("a", "/s")]


def test_a_producer_that_counts_up_its_type_is_cut_off() -> None:
    told = Told()
    for number in range(MOST + 50):
        told.note(f"type-{number}")
    assert len(told.told) == MOST
    told.now = AGAIN_SECONDS
    told.note("fresh")
    assert told.told[-1] == ("fresh", "/s")


def test_a_type_without_end_is_passed_over() -> None:
    told = Told()
    told.note("x" * (LONGEST + 1))
    assert told.told == []
