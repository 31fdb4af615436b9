"""JSONata in a process of its own: what does not end is stopped, what takes all memory is told, and the next works."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from penstock.workloads.actors.jsonata import CannotTransform, Expressions

ENDLESS = "($f := function($n) { $f($n + 1) }; $f(1))"


@pytest.fixture
async def expressions() -> AsyncIterator[Expressions]:
    sources = {"copy": '{"type": type, "data": data.reason}', "endless": ENDLESS, "greedy": "[1..100000000]"}
    made = Expressions({**sources, "broken": "data.reason / 2"}, 5)
    await made.start()
    yield made
    await made.close()


async def test_an_event_is_transformed(expressions: Expressions) -> None:
    assert await expressions.evaluate("copy", {"type": "t", "data": {"reason": "r"}}) == {"type": "t", "data": "r"}


async def test_a_program_that_does_not_end_is_stopped_and_the_next_works(expressions: Expressions) -> None:
    with pytest.raises(CannotTransform, match="took more than 5 s and was stopped"):
        await expressions.evaluate("endless", {})
    assert await expressions.evaluate("copy", {"type": "t"}) == {"type": "t"}


async def test_a_program_that_wants_too_much_is_told_so(expressions: Expressions) -> None:
    with pytest.raises(CannotTransform):
        await expressions.evaluate("greedy", {})
    with pytest.raises(CannotTransform):
        await expressions.evaluate("broken", {"data": {"reason": "no number"}})
    assert await expressions.evaluate("copy", {"type": "t"}) == {"type": "t"}


async def test_an_expression_that_cannot_be_read_is_told_at_the_start() -> None:
    with pytest.raises(CannotTransform, match="input: "):
        await Expressions({"input": '{"a": '}).start()
