"""Why a filter lets an event pass: part by part, in words."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.events.event import CloudEvent
from penstock.filters.evaluate import matches_event
from penstock.filters.parse import parse
from penstock.filters.reasons import Step, steps_of


def event(data: bytes | None = None, **attributes: str) -> CloudEvent:
    return CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}, data)


def test_without_filters_there_is_one_step() -> None:
    assert steps_of(parse(None, None), event()) == [Step(0, True, "there is no filter: every event passes")]


def test_each_part_says_what_the_event_has_instead() -> None:
    filters: list[dict[str, Any]] = [
        {"any": [{"exact": {"type": "order"}}, {"not": {"prefix": {"source": "/s"}}}]},
        {"cesql": "n > 3"},
    ]
    assert steps_of(parse(None, filters), event(n="2")) == [
        Step(0, False, "all of"),
        Step(1, False, "any of"),
        Step(2, False, "type is 'order', but the event has 't'"),
        Step(2, False, "not"),
        Step(3, True, "source begins with '/s'"),
        Step(1, False, "n > 3   is false"),
    ]


def test_an_expression_that_fails_says_so() -> None:
    [step] = steps_of(parse(None, [{"cesql": "INT(subject) > 3"}]), event(subject="x"))
    assert not step.passes
    assert "is an error" in step.text


@given(st.sampled_from(["t", "order", "o"]), st.sampled_from(["/s", "/a", ""]))
def test_the_first_step_is_the_verdict(kind: str, source: str) -> None:
    predicate = parse(None, [{"prefix": {"type": "o"}}, {"not": {"exact": {"source": "/a"}}}])
    one = event(type=kind, source=source)
    assert steps_of(predicate, one)[0].passes == matches_event(predicate, one)
