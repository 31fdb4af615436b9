"""What the suite tells while it runs, as `go tool test2json` writes it: one JSON object a line, an action of a test.

The suite's framework (reconciler-test) runs a feature as subtests: a timing (Prerequisite, Setup, Requirement, Assert,
Teardown), and below each the steps. Where a prerequisite does not hold, such as TLS being on, every later timing is
skipped and the test as a whole still counts as passed for Go. Such a test has shown nothing, so here it is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

Outcome = Literal["passed", "failed", "skipped"]

PREREQUISITE = "Prerequisite"
OUTCOMES: dict[str, Outcome] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


class Line(msgspec.Struct, rename="pascal"):
    """One line of test2json."""

    action: str
    test: str = ""
    elapsed: float = 0.0
    output: str = ""


@dataclass(frozen=True)
class Ended:
    """A test of the suite that has ended."""

    test: str
    outcome: Outcome
    seconds: float
    passed_steps: int
    skipped_steps: int
    output: str = field(repr=False)
    """All that the test and its steps printed."""


class TestLog:
    """Reads line after line and tells which tests run and how they ended."""

    __test__ = False  # pytest takes it for a test otherwise

    def __init__(self) -> None:
        self.running: list[str] = []
        """In the order in which they began."""
        self.ended: dict[str, Ended] = {}
        self.stray: list[str] = []
        """What was printed by no test: panics and complaints of the framework among it."""
        self._steps: dict[str, dict[str, Outcome]] = {}
        self._output: dict[str, list[str]] = {}

    def read(self, raw: bytes) -> Ended | None:
        """The test of the suite that has ended with this line, if one has."""
        try:
            line = msgspec.json.decode(raw, type=Line)
        except msgspec.MsgspecError:  # test2json passes on what a test binary says before its first test
            self.stray.append(raw.decode(errors="replace"))
            return None
        test, _, step = line.test.partition("/")
        if line.action == "output":
            (self._output.setdefault(test, []) if test else self.stray).append(line.output)
        elif line.action == "run" and not step:
            self.running.append(test)
        elif (outcome := OUTCOMES.get(line.action)) and step:
            self._steps.setdefault(test, {})[step] = outcome
        elif outcome and test:
            return self._end(test, outcome, line.elapsed)
        return None

    def close(self, seconds: float) -> list[Ended]:
        """The suite is over: what still runs was cut off, and has failed."""
        return [self._end(test, "failed", seconds) for test in tuple(self.running)]

    def _end(self, test: str, outcome: Outcome, seconds: float) -> Ended:
        steps = last_steps(self._steps.pop(test, {}))
        passed, skipped = list(steps.values()).count("passed"), list(steps.values()).count("skipped")
        if outcome == "passed" and skipped and not passed:
            outcome = "skipped"
        ended = Ended(test, outcome, seconds, passed, skipped, "".join(self._output.pop(test, ())))
        self.running.remove(test)
        self.ended[test] = ended
        return ended


def last_steps(steps: dict[str, Outcome]) -> dict[str, Outcome]:
    """Those that have no steps of their own, without prerequisites: they ask whether to test, and test nothing."""
    parents = {name.rpartition("/")[0] for name in steps}
    return {
        name: outcome for name, outcome in steps.items() if name not in parents and PREREQUISITE not in name.split("/")
    }
