"""One name means one thing: whoever searches for a class finds one."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src" / "penstock"


def test_no_two_classes_have_the_same_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                places[statement.name].append(str(path.relative_to(SOURCE)))
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
