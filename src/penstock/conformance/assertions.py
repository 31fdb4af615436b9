"""The assertions of the specifications: `assertions.yaml`, one row for each, with the test that shows it.

A row either names tests or gives the reason why it does not apply; never both, never neither.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec
import yaml

Level = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT"]


class Assertion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that a specification demands."""

    id: str
    where: str
    """Document and section."""
    text: str
    """What it demands, in few words."""
    level: Level
    tests: tuple[str, ...] = ()
    """pytest node ids, or `event-delivery/05`."""
    not_applicable: str = ""
    """Why no test can show it here."""


def path() -> Path:
    """The file."""
    return Path(str(files("penstock.conformance"))) / "assertions.yaml"


def load(text: str | None = None) -> list[Assertion]:
    """All rows. Raises ValueError with what is wrong and where."""
    rows = yaml.safe_load(path().read_text() if text is None else text)
    try:
        assertions = msgspec.convert(rows, list[Assertion])
    except msgspec.ValidationError as error:
        raise ValueError(f"assertions.yaml: {error}") from error
    problems = [*_duplicates(assertions), *_undecided(assertions)]
    if problems:
        raise ValueError("assertions.yaml: " + "; ".join(problems))
    return assertions


def _duplicates(assertions: list[Assertion]) -> list[str]:
    ids = [assertion.id for assertion in assertions]
    return [f"the id {ident} is used twice" for ident in sorted({ident for ident in ids if ids.count(ident) > 1})]


def _undecided(assertions: list[Assertion]) -> list[str]:
    return [
        f"{assertion.id} needs either tests or the reason why it does not apply"
        for assertion in assertions
        if bool(assertion.tests) == bool(assertion.not_applicable)
    ]
