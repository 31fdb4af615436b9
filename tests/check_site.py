"""Builds the documentation's site and looks at what was built: `python tests/check_site.py`.

Sphinx's warnings are errors: pages that no kind lists, links and headings that are not there. What it cannot see is
looked at in the pages themselves: that every link leads to a file and an anchor that were built, and that a reader's
browser asks no other host for anything.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""What a browser fetches by itself, by the attribute that names it."""


class Page(HTMLParser):
    """The anchors of a page, where its links lead, and what a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and (target := given.get(LOADED[tag])):
            self.loaded.append(target)


def main() -> int:
    """Says what is wrong, one line each; the exit code."""
    shutil.rmtree(SITE / "html", ignore_errors=True)  # no page of yesterday
    if build(ROOT / "docs", SITE / "html", SITE / "doctrees"):
        return 1
    wrong = list(faults(SITE / "html"))
    print("\n".join(wrong) or f"the site is in {(SITE / 'html' / 'index.html').relative_to(ROOT)}")
    return 1 if wrong else 0


def build(source: Path, target: Path, kept: Path) -> int:
    return build_main(["-b", "html", "-W", "--keep-going", "-q", "-d", str(kept), str(source), str(target)])


def faults(folder: Path) -> Iterator[str]:
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}
    for path, page in pages.items():
        name = path.relative_to(folder)
        yield from (
            f"{name}: the browser would ask another host for {target}" for target in page.loaded if is_away(target)
        )
        yield from (
            f"{name}: {target} leads nowhere" for target in page.links if not leads_somewhere(target, path, pages)
        )
    for style in folder.rglob("*.css"):
        for target in re.findall(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')]+)", style.read_text()):
            yield f"{style.relative_to(folder)}: the browser would ask another host for {target}"
    if "broker" not in (folder / "searchindex.js").read_text():
        yield "searchindex.js: the search would not find the word broker"


def is_away(target: str) -> bool:
    return target.startswith(("http:", "https:", "//"))


def leads_somewhere(target: str, path: Path, pages: dict[Path, Page]) -> bool:
    if re.match(r"[a-z]+:|//", target):
        return True
    file, _, anchor = target.partition("#")
    there = (path.parent / unquote(file)).resolve() if file else path
    if there in pages:
        return not anchor or unquote(anchor) in pages[there].anchors
    return there.is_file()


if __name__ == "__main__":
    sys.exit(main())
