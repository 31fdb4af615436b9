"""The changelog's section on top is that of the version which is in the making."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_newest_section_is_that_of_the_project_s_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    sections = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == f"v{version}"
    assert sections == sorted(sections, key=lambda name: [int(part) for part in name[1:].split(".")], reverse=True)
