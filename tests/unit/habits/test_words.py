"""Plain English: words that make the code and its pages hard to read for people who learned English later are rare."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
WORDS = re.compile(r"\b(?:told|nobody|whoever|somebody)\b|(?<!there )\bis no (?!longer)[a-z]+", re.IGNORECASE)
MOST_PER_1000_LINES = 0.3


def test_the_code_and_the_pages_use_plain_words() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    lines, found = 0, []
    for path in sorted([*(ROOT / "src").rglob("*.py"), *pages]):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            lines += 1
            found += [f"{path.relative_to(ROOT)}:{number}: {hit.group()}" for hit in WORDS.finditer(line)]
    shown = "\n".join(found)
    assert len(found) * 1000 <= lines * MOST_PER_1000_LINES, (
        f"{len(found)} in {lines} lines; say reports, shows, returns; no one, anyone who; is not a …:\n{shown}"
    )
