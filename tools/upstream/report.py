"""What a run has shown: for the terminal, as Markdown for the page, as JSON for programs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tools.upstream.expectations import STANDINGS, Expectation, Standing, standing_of
from tools.upstream.testlog import Ended


@dataclass(frozen=True)
class Row:
    """One test of the suite."""

    test: str
    standing: Standing
    reason: str = ""
    """Why it does not pass, as the expectations say."""
    seconds: float = 0.0
    passed_steps: int = 0
    skipped_steps: int = 0


def rows(expectations: Mapping[str, Expectation], results: Sequence[Ended], silent: Sequence[str]) -> list[Row]:
    """All tests by name; those that were not run on purpose among them."""
    told = [_row(ended, expectations.get(ended.test)) for ended in results]
    told += [Row(test, "needs what is not here", expectations[test].needs) for test in silent]
    return sorted(told, key=lambda row: row.test)


def _row(ended: Ended, expected: Expectation | None) -> Row:
    standing = standing_of(ended)
    reason = expected.reason if expected is not None and expected.standing == standing else ""
    return Row(ended.test, standing, reason, round(ended.seconds, 1), ended.passed_steps, ended.skipped_steps)


def summary(listed: Sequence[Row]) -> str:
    """How many tests stand how."""
    counts = Counter(row.standing for row in listed)
    parts = [f"{counts[standing]} {standing}" for standing in STANDINGS if counts[standing]]
    return f"{len(listed)} tests: {', '.join(parts)}."


def markdown(listed: Sequence[Row], version: str, minutes: float) -> str:
    """The table, what does not pass first."""
    return "\n".join(
        [
            f"{summary(listed)} knative.dev/eventing {version}, {time.strftime('%Y-%m-%d')}, {minutes:.0f} minutes.",
            *(line for standing in STANDINGS[1:] for line in _reasons(listed, standing)),
            "",
            "| Test | Result | Steps passed | skipped | Seconds |",
            "|---|---|---|---|---|",
            *(_line(row) for row in listed),
        ]
    )


def _reasons(listed: Sequence[Row], standing: Standing) -> Iterator[str]:
    """The tests that stand so, by reason."""
    reasons: dict[str, list[str]] = {}
    for row in listed:
        if row.standing == standing:
            reasons.setdefault(row.reason or "no reason is known", []).append(row.test)
    if reasons:
        yield from ("", f"{standing.capitalize()}:", "")
    for reason, tests in reasons.items():
        yield f"- {reason}: {', '.join(tests)}"


def _line(row: Row) -> str:
    if row.standing == "needs what is not here":
        return f"| {row.test} | {row.standing} | | | |"
    return f"| {row.test} | {row.standing} | {row.passed_steps} | {row.skipped_steps} | {row.seconds:.0f} |"


def write(folder: Path, listed: Sequence[Row], page: str, results: Sequence[Ended], stray: str) -> None:
    """Leaves `report.md`, `report.json` and all that failed tests printed in the folder."""
    (folder / "report.md").write_text(page + "\n")
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(listed), indent=1) + b"\n")
    (folder / "stray.log").write_text(stray)
    for ended in results:
        if ended.outcome == "failed":
            (folder / f"{ended.test}.log").write_text(ended.output)
