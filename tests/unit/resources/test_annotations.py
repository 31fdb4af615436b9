"""Every annotation under penstock.dev/ that the code knows is in docs/annotations.md, and no other is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
ANNOTATION = re.compile(r"penstock\.dev/([a-z-]+[a-z])")


def test_annotations_are_documented() -> None:
    known = {name for file in (ROOT / "src").rglob("*.py") for name in ANNOTATION.findall(file.read_text())}
    documented = set(ANNOTATION.findall((ROOT / "docs" / "annotations.md").read_text()))
    assert known == documented
    assert {"max-in-flight", "ordering", "paused", "pod-ports"} <= known
