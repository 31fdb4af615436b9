"""What a script expects of a backtest, such as `added=0`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.backtest.report import EventCounts, TriggerResult
from penstock.engine.problem import Problem

NAMES = ("events", "matched", "present", "added", "removed")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FORM = re.compile(r"\s*([a-z]+)\s*(!=|<=|>=|=|<|>)\s*(\d+)\s*")


@dataclass(frozen=True)
class Expectation:
    """A count, and what it should be."""

    name: str
    comparison: str
    value: int

    def holds(self, counts: EventCounts) -> bool:
        """Whether the counts are as expected."""
        return _COMPARE[self.comparison](getattr(counts, self.name), self.value)

    def __str__(self) -> str:
        return f"{self.name}{self.comparison}{self.value}"


def read(texts: Iterable[str]) -> tuple[Expectation, ...]:
    """The expectations, each or several joined by commas. Raises Problem."""
    return tuple(_read(part) for text in texts for part in text.split(","))


def _read(text: str) -> Expectation:
    found = _FORM.fullmatch(text)
    if found is None or found[1] not in NAMES:
        names = ", ".join(NAMES)
        raise Problem(
            f"--expect {text} is not understood.", f"Write added=0 or matched>=10; there are {names}.", exit_code=2
        )
    return Expectation(found[1], found[2], int(found[3]))


def disappointments(results: Iterable[TriggerResult], expected: Iterable[Expectation]) -> list[str]:
    """What is not as expected, each in one line; every Trigger must be."""
    expected = tuple(expected)
    return [
        f"Trigger {result.trial.namespace}/{result.trial.name}: expected {each}, "
        f"found {getattr(result.total, each.name)}"
        for result in results
        for each in expected
        if not each.holds(result.total)
    ]
