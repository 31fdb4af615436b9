"""Results of conformance tests, and the files that carry them from the runs to the report."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

Outcome = Literal["passed", "failed", "skipped"]


class ConformanceResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One test."""

    test: str
    """`event-delivery/05`, or a pytest node id."""
    outcome: Outcome
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    """What was not as expected, in sentences."""
    evidence: tuple[str, ...] = ()
    """What was sent and received."""


class ResultFile(msgspec.Struct, frozen=True):
    """The results of one run."""

    suite: str
    target: str
    """What was tested, for people: an address, a version."""
    started: str
    results: tuple[ConformanceResult, ...]


def write(path: Path, results: ResultFile) -> None:
    """Writes the file, and its folder if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def read_all(folder: Path) -> list[ResultFile]:
    """All result files of a folder, by name. Raises ValueError naming a file that is none."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=ResultFile))
        except msgspec.MsgspecError as error:
            raise ValueError(f"{path} is not a file of results: {error}") from error
    return found
