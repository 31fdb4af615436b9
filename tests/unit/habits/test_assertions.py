"""A test that cannot fail is worse than none: every test function compares something, itself or by a helper."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[2]

FAILS = {"raises", "fail", "wait_for", "suppress"}
"""The last is for tests which say that nothing else is raised, whatever comes."""


def test_every_test_can_fail() -> None:
    found = {path: list(functions(path)) for path in sorted(TESTS.rglob("*.py"))}
    helpers = {function.name for every in found.values() for function in every if function.asserts}
    helpers = {name for name in helpers if not name.startswith("test_")} | FAILS
    powerless = [
        f"{path.relative_to(TESTS)}:{function.line} {function.name}"
        for path, every in found.items()
        for function in every
        if function.name.startswith("test_") and not function.asserts and not helpers & function.calls
    ]
    assert powerless == []


@dataclass(frozen=True)
class Function:
    """What is kept of a function, for the trees of all tests at once are large."""

    name: str
    line: int
    asserts: bool
    calls: set[str]
    """The names of what it calls, where it asserts nothing itself."""


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            itself = asserts(node)
            yield Function(node.name, node.lineno, itself, set() if itself else calls(node))


def asserts(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(function))


def calls(function: ast.AST) -> set[str]:
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in called}
