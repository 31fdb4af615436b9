"""A test that cannot fail is worse than none: every test function compares something, itself or by a helper."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef

FAILS = {"raises", "fail", "wait_for", "suppress"}
"""The last is for tests which say that nothing else is raised, whatever comes."""


def test_every_test_can_fail() -> None:
    trees = {path: ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}
    helpers = {function.name for tree in trees.values() for function in functions(tree) if asserts(function)}
    helpers = {name for name in helpers if not name.startswith("test_")} | FAILS
    powerless = [
        f"{path.relative_to(TESTS)}:{function.lineno} {function.name}"
        for path, tree in trees.items()
        for function in functions(tree)
        if function.name.startswith("test_") and not asserts(function) and not helpers & calls(function)
    ]
    assert powerless == []


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def asserts(function: Function) -> bool:
    return any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(function))


def calls(function: Function) -> set[str]:
    """The names of what it calls."""
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in called}
