"""The documentation against the tree: what a page names exists, and what exists has its place on a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sharing

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "penstock"
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
ON_THE_WAY = [page for page in (ROOT / "docs" / "architecture.md", ROOT / "docs" / "one-event.md") if page.exists()]
"""Pages that lead through the code by the names of files and folders."""

named = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@named
def test_links_lead_somewhere(page: Path) -> None:
    assert list(dead_links(page)) == []


def dead_links(page: Path) -> Iterator[str]:
    """Relative links to files or headings that are not there."""
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (heading and heading not in anchors(file)):
            yield target


def anchors(page: Path) -> set[str]:
    """What a link can point at in a page, as GitHub names it."""
    headings = re.findall(r"^#+ +(.+?)\s*$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", ON_THE_WAY, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    missing = [name for name in names_of_files(page.read_text()) if not exists(name)]
    assert missing == []


def names_of_files(text: str) -> list[str]:
    """`router/query.py`, `src/penstock/kafka/`, `service.py`: what is in backticks and belongs to the repository."""
    return re.findall(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|lark|sql|yaml|md)|(?:src|tests|docs)/[\w./-]+)`", text)


def exists(name: str) -> bool:
    if "/" not in name:
        return any(PACKAGE.rglob(name)) or any(ROOT.glob(name))
    return any((place / name).exists() for place in (ROOT, PACKAGE, ROOT / "tests"))


def packages() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*") if (path / "__init__.py").exists())


def test_the_table_of_packages_is_complete() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.partition("\n## Packages\n")[2].partition("\n## ")[0]
    first_columns = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    listed = {name for column in first_columns for name in re.findall(r"`(\w+)/`", column)}
    assert listed == {package.name for package in packages() if package.parent == PACKAGE}


def test_the_groups_of_tests_name_files_that_exist() -> None:
    assert [pattern for pattern in sharing.GROUPS if not list(ROOT.glob(pattern))] == []
