"""The site that `make docs` builds of these pages: Sphinx, with MyST for Markdown and Furo for its looks.

The pages stay plain Markdown that reads well in an editor and on a forge. What only the site needs is added while it
reads them: each of the four kinds (tutorials, how-to guides, explanation, reference) has a page that lists its pages,
and the navigation is made of those lists.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]

project = "penstock"
author = "the penstock authors"
copyright = "the penstock authors, Apache-2.0"  # Sphinx asks for this name
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser"]
myst_heading_anchors = 4
suppress_warnings = ["myst.xref_ambiguous"]

html_theme = "furo"
html_title = f"penstock {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"footer_icons": [], "top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "monokai"

KINDS = ("tutorials", "how-to", "explanation", "reference")
OF_THE_PROJECT = {
    "project/changelog": "CHANGELOG",
    "project/contributing": "CONTRIBUTING",
    "project/security-policy": "SECURITY",
}
"""Pages of the site that are files of the repository's root."""

LINK = re.compile(r"\[([^\]]+)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def setup(app: Sphinx) -> None:
    app.connect("source-read", adapt)


def adapt(_: Sphinx, page: str, source: list[str]) -> None:
    file = ROOT / "docs" / f"{page}.md"
    if page in OF_THE_PROJECT:
        file = ROOT / f"{OF_THE_PROJECT[page]}.md"
        source[0] = file.read_text()
    pages = list(KINDS) if page == "index" else pages_listed(source[0]) if page in KINDS else []
    source[0] = with_links_of_the_site(source[0], file.parent) + navigation(pages)


def pages_listed(text: str) -> list[str]:
    return re.findall(r"^- \[[^\]]+\]\(([\w/-]+)\.md\)", text, re.MULTILINE)


def with_links_of_the_site(text: str, folder: Path) -> str:
    """Links between pages become those of the site. A folder of the repository has no page, and its link is text."""
    return LINK.sub(lambda link: link_of_the_site(link, folder), text)


def link_of_the_site(link: re.Match[str], folder: Path) -> str:
    target = (folder / link[2]).resolve()
    if target.is_dir():
        return link[1]
    if target.parent == ROOT:
        pages = {name: page for page, name in OF_THE_PROJECT.items()}
        return f"[{link[1]}](/{pages[target.stem]}.md{link[3] or ''})" if target.stem in pages else link[1]
    return f"[{link[1]}](/{os.path.relpath(target, ROOT / 'docs')}{link[3] or ''})"


def navigation(pages: list[str]) -> str:
    return "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n" if pages else ""
