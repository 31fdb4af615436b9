"""The page docs/conformance.md: two tables, each made by a command of its own and each left alone by the other's.

`python -m tools.upstream.page FILE` puts the report of `penstock conformance report` into it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from tools.benchmarks.report import between_marks

PAGE = Path("docs/conformance.md")
TITLE = "# Conformance\n\n"
"""Of the report. The page has one already."""


def publish(page: Path, part: Literal["specifications", "upstream"], text: str) -> None:
    """Puts a table between the marks of its part."""
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    if not 0 <= page.read_text().find(begin) < page.read_text().find(end):
        raise ValueError(f"{page} has no place for the part {part}: {begin} before {end}")
    between_marks(page, begin, end, text.removeprefix(TITLE).strip("\n"))


if __name__ == "__main__":
    publish(PAGE, "specifications", Path(sys.argv[1]).read_text())
