"""What pages tell a reader to type would be understood: commands and flags of `penstock`, and targets of make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_lines import misunderstood

ROOT = Path(__file__).parents[3]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(page for page in sorted(ROOT.glob("*.md")) if page.stem != "CHANGELOG"),
]
named = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@named
def test_commands_are_understood(page: Path) -> None:
    assert [problem for line in lines(page.read_text()) for problem in misunderstood(line)] == []


def lines(text: str) -> Iterator[str]:
    """What is typed: after a prompt in any block, and every line of a block of sh. A backslash joins two lines."""
    for language, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if language == "sh" or line.lstrip().startswith("$ "):
                yield line.strip().removeprefix("$ ")


def test_what_is_not_there_is_found() -> None:
    assert list(misunderstood("penstock nonsense")) == ["penstock nonsense: No such command 'nonsense'."]
    assert list(misunderstood("A=1 penstock send '{}' --colour red | cat")) == [
        "penstock send {} --colour red: No such option: --colour (Possible options: --count, --source)"
    ]
    assert len(list(misunderstood("penstock listen --count many &"))) == 1
    assert list(misunderstood("cd /tmp && penstock listen --count 1 > out &")) == []


@named
def test_targets_of_make_are_there(page: Path) -> None:
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    told = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", page.read_text()))
    assert told - there == set()
