"""Every page of the documentation belongs to one of its four kinds, in whose list a reader finds it.

The site itself is built and looked at by `make docs`, which is part of `make check`.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
KINDS = ("tutorials", "how-to", "explanation", "reference")


def listed() -> list[str]:
    """As the site's navigation reads them: `- [Title](page.md): what it is about`."""
    lists = "\n".join((DOCS / f"{kind}.md").read_text() for kind in KINDS)
    return re.findall(r"^- \[[^\]]+\]\(([\w/-]+\.md)\)", lists, re.MULTILINE)


def test_every_page_is_in_the_list_of_one_kind() -> None:
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    missing = pages - set(listed()) - {"index.md", *(f"{kind}.md" for kind in KINDS)}
    assert missing == set(), "give each a line in docs/tutorials.md, how-to.md, explanation.md or reference.md"


def test_no_page_is_listed_twice() -> None:
    assert [page for page, count in Counter(listed()).items() if count > 1] == []


def test_the_index_names_the_four_kinds() -> None:
    index = (DOCS / "index.md").read_text()
    assert [kind for kind in KINDS if f"({kind}.md)" not in index] == []
