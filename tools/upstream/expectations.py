"""What each test of the suite is expected to show, and whether it did."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from tools.upstream.testlog import Ended

Standing = Literal["passed", "failed", "skipped by the suite", "needs what is not here"]

STANDINGS: tuple[Standing, ...] = ("passed", "failed", "skipped by the suite", "needs what is not here")


class BadExpectations(ValueError):
    """The list of expectations cannot be used."""


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why a test does not pass: exactly one of the three, in words."""

    fail: str = ""
    """The suite asks for something that is not so here, on purpose."""
    skip: str = ""
    """The suite itself leaves the test out."""
    needs: str = ""
    """The test is not run: it needs what is not here."""

    @property
    def standing(self) -> Standing:
        """As the table says it."""
        if self.needs:
            return "needs what is not here"
        return "failed" if self.fail else "skipped by the suite" if self.skip else "passed"

    @property
    def reason(self) -> str:
        """In words; empty for what passes."""
        return self.needs or self.fail or self.skip


PASS = Expectation()


def load(path: Path) -> dict[str, Expectation]:
    """By test. Raises BadExpectations, which says what is wrong with the file."""
    try:
        listed = msgspec.yaml.decode(path.read_bytes(), type=dict[str, Literal["pass"] | Expectation])
    except msgspec.MsgspecError as error:
        raise BadExpectations(f"{path}: {error}") from error
    for test, said in listed.items():
        if said != "pass" and sum(map(bool, (said.fail, said.skip, said.needs))) != 1:
            raise BadExpectations(f"{path}: {test} needs one of fail, skip and needs, with the reason in words")
    return {test: PASS if said == "pass" else said for test, said in listed.items()}


def left_out(expectations: Mapping[str, Expectation], run: str) -> list[str]:
    """Tests that are not run, although `run` selects them: what they need is not here."""
    return [test for test, said in expectations.items() if said.needs and selected(test, run)]


def selected(test: str, run: str) -> bool:
    """Whether Go would run the test for `-test.run`: an expression for each level, found anywhere in the name."""
    return re.search(run.partition("/")[0], test) is not None


def standing_of(ended: Ended) -> Standing:
    """As the table says it."""
    return "skipped by the suite" if ended.outcome == "skipped" else ended.outcome


def differences(
    expectations: Mapping[str, Expectation], results: Iterable[Ended], run: str, silent: Iterable[str] = ()
) -> list[str]:
    """What is not as expected among the selected tests, in sentences. `silent` were not run on purpose."""
    found, told = [], {ended.test: ended for ended in results}
    for test, ended in told.items():
        standing, expected = standing_of(ended), expectations.get(test)
        if expected is None:
            found.append(f"{test} {standing}, and the expectations do not name it")
        elif standing != expected.standing:
            found.append(f"{test} {standing}; expected: {expected.standing}{why(expected)}")
    missing = set(expectations) - set(told) - set(silent)
    found += [f"{test} did not run" for test in sorted(missing) if selected(test, run)]
    return found


def why(expected: Expectation) -> str:
    """The reason as the end of a sentence."""
    return f" ({expected.reason})" if expected.reason else ""
