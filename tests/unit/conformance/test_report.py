"""The report: assertions joined with results, as Markdown, JSON and JUnit; the file of assertions itself."""

from __future__ import annotations

import ast
import json
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import pytest

from penstock.conformance import report
from penstock.conformance import report as assertions
from penstock.conformance import report as results
from penstock.conformance.catalog import TESTS
from penstock.conformance.report import Assertion, ConformanceResult, ResultFile

ROOT = Path(__file__).parents[3]
ROWS = [
    Assertion("a-1", "one.md, Brokers", "is ready", "MUST", tests=("tests/t.py::test_ready",)),
    Assertion("a-2", "one.md, Brokers", "retries | waits", "SHOULD", tests=("event-delivery/05",)),
    Assertion("a-3", "two.md, Roles", "uses RBAC", "MUST NOT", not_applicable="advice, no demand"),
    Assertion("a-4", "two.md, Roles", "never ran", "MUST", tests=("tests/t.py::test_other",)),
    Assertion("a-5", "two.md, Roles", "half ran", "MUST", tests=("tests/t.py::test_ready", "tests/t.py::test_other")),
]
WRITTEN = assertions.load()
"""The rows of the file itself."""
RUN = ResultFile(
    "all",
    "https://127.0.0.1:8443",
    "2026-01-01T00:00:00Z",
    (
        ConformanceResult("tests/t.py::test_ready[x]", "passed", 0.5),
        ConformanceResult("tests/t.py::test_ready[y]", "passed", 0.5),
        ConformanceResult("event-delivery/05", "failed", 9.5, ("came too late",), ("sink: {}",)),
    ),
)


def test_assertions_stand_as_their_tests_went() -> None:
    table = report.assemble(ROWS, [RUN])
    standings = {row.assertion.id: row.standing for row in table.rows}
    assert standings == {"a-1": "passed", "a-2": "failed", "a-3": "not applicable", "a-4": "not run", "a-5": "not run"}
    assert table.failed
    assert (table.count("passed"), table.count("not run")) == (1, 2)


def test_one_failed_case_fails_the_assertion() -> None:
    mixed = ResultFile("x", "y", "z", (*RUN.results, ConformanceResult("tests/t.py::test_ready[z]", "failed")))
    assert report.assemble(ROWS, [mixed]).rows[0].standing == "failed"


def test_a_failed_test_that_no_row_names_fails_the_report() -> None:
    run = ResultFile("x", "y", "z", (ConformanceResult("tests/t.py::test_stray", "failed"),))
    assert report.assemble([], [run]).failed
    assert not report.assemble(ROWS, []).failed


def test_markdown_shows_the_table_and_the_evidence() -> None:
    text = report.to_markdown(report.assemble(ROWS, [RUN]))
    assert "5 assertions of the specifications: 1 passed, 1 failed, 1 not applicable, 2 not run." in text
    assert "| a-2 | SHOULD | retries \\| waits | failed | `event-delivery/05` |" in text
    assert "problem: came too late\nsink: {}" in text
    assert text.index("## one.md") < text.index("## two.md") < text.index("## Failures")


def test_json_can_be_read_again() -> None:
    table = report.assemble(ROWS, [RUN])
    read = json.loads(report.to_json(table))
    assert [row["standing"] for row in read["rows"]] == [row.standing for row in table.rows]


def test_junit_counts_failures_and_skips() -> None:
    root = ET.fromstring(report.to_junit(report.assemble(ROWS, [RUN])))
    cases = root.findall("testsuite[@name='assertions']/testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == ["a-2"]
    assert [case.get("name") for case in cases if case.find("skipped") is not None] == ["a-3", "a-4", "a-5"]
    failure = root.find("testsuite[@name='all']/testcase/failure")
    assert failure is not None
    assert "came too late" in (failure.text or "")


def test_results_travel_through_files(tmp_path: Path) -> None:
    results.write(tmp_path / "deep" / "event-delivery.json", RUN)
    assert results.read_all(tmp_path / "deep") == [RUN]
    (tmp_path / "deep" / "broken.json").write_text("{}")
    with pytest.raises(ValueError, match=r"broken\.json is not a file of results"):
        results.read_all(tmp_path / "deep")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- {id: a, where: w, text: t, level: MUST}", "a needs either tests"),
        ("- {id: a, where: w, text: t, level: MUST, tests: [x], not_applicable: y}", "a needs either tests"),
        ("- {id: a, where: w, text: t, level: MAY, tests: [x]}", "assertions.yaml"),
        ("- {id: a, where: w, text: t, level: MUST, tests: [x]}\n" * 2, "the id a is used twice"),
        ("- {id: a}", "assertions.yaml"),
    ],
)
def test_a_broken_file_of_assertions_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        assertions.load(text)


@cache
def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def exists(test: str) -> bool:
    """Whether a test that a row names is there."""
    if test.startswith("event-delivery/"):
        return test in {known.id for known in TESTS}
    file, _, name = report.base_test(test).partition("::")
    path = ROOT / file
    return path.is_file() and name.rpartition("::")[2] in functions(path)


@cache
def marked(path: Path) -> dict[str, set[str]]:
    """The rows that each test of a file names by its marker."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            ids = set()
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.assertion":
                    ids |= {ast.literal_eval(argument) for argument in decorator.args}
            found[f"{path.relative_to(ROOT)}::{node.name}"] = ids
    return found


def test_every_row_names_tests_that_exist() -> None:
    missing = {row.id: test for row in WRITTEN for test in row.tests if not exists(test)}
    assert missing == {}


def test_every_conformance_test_names_its_rows_and_they_name_it() -> None:
    rows = {row.id: set(row.tests) for row in WRITTEN}
    problems = []
    for path in sorted((ROOT / "tests" / "conformance").glob("test_*.py")):
        for test, ids in marked(path).items():
            if not ids:
                problems.append(f"{test} names no row")
            problems += [
                f"{test} names {ident}, which does not name it" for ident in ids if test not in rows.get(ident, ())
            ]
    for ident, tests in rows.items():
        for test in tests:
            if test.startswith("tests/conformance/"):
                file = ROOT / test.partition("::")[0]
                if ident not in marked(file).get(report.base_test(test), set()):
                    problems.append(f"{ident} names {test}, which does not name it")
    assert problems == []


def test_every_delivery_test_is_named_by_a_row() -> None:
    named = {test for row in WRITTEN for test in row.tests}
    assert [test.id for test in TESTS if test.id not in named] == []
