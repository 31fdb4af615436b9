"""The conformance report: every assertion with the results of the last runs, as Markdown, JSON and JUnit.

`assertions.yaml` has a row for each assertion of the specifications: either the tests that show it, or the reason why
it does not apply. Each run writes its results to a file, which the report reads.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec
import yaml

Level = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT"]


class Assertion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that a specification demands."""

    id: str
    where: str
    """Document and section."""
    text: str
    """What it demands, in few words."""
    level: Level
    tests: tuple[str, ...] = ()
    """pytest node ids, or `event-delivery/05`."""
    not_applicable: str = ""
    """Why no test can show it here."""


def path() -> Path:
    """The file."""
    return Path(str(files("penstock.conformance"))) / "assertions.yaml"


def load(text: str | None = None) -> list[Assertion]:
    """All rows. Raises ValueError with what is wrong and where."""
    rows = yaml.safe_load(path().read_text() if text is None else text)
    try:
        assertions = msgspec.convert(rows, list[Assertion])
    except msgspec.ValidationError as error:
        raise ValueError(f"assertions.yaml: {error}") from error
    problems = [*_duplicates(assertions), *_undecided(assertions)]
    if problems:
        raise ValueError("assertions.yaml: " + "; ".join(problems))
    return assertions


def _duplicates(assertions: list[Assertion]) -> list[str]:
    ids = [assertion.id for assertion in assertions]
    return [f"the id {ident} is used twice" for ident in sorted({ident for ident in ids if ids.count(ident) > 1})]


def _undecided(assertions: list[Assertion]) -> list[str]:
    return [
        f"{assertion.id} needs either tests or the reason why it does not apply"
        for assertion in assertions
        if bool(assertion.tests) == bool(assertion.not_applicable)
    ]


Outcome = Literal["passed", "failed", "skipped"]


class ConformanceResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One test."""

    test: str
    """`event-delivery/05`, or a pytest node id."""
    outcome: Outcome
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    """What was not as expected, in sentences."""
    evidence: tuple[str, ...] = ()
    """What was sent and received."""


class ResultFile(msgspec.Struct, frozen=True):
    """The results of one run."""

    suite: str
    target: str
    """What was tested, for people: an address, a version."""
    started: str
    results: tuple[ConformanceResult, ...]


def write(path: Path, results: ResultFile) -> None:
    """Writes the file, and its folder if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def read_all(folder: Path) -> list[ResultFile]:
    """All result files of a folder, by name. Raises ValueError naming a file that is none."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=ResultFile))
        except msgspec.MsgspecError as error:
            raise ValueError(f"{path} is not a file of results: {error}") from error
    return found


Standing = Literal["passed", "failed", "not applicable", "not run"]


class AssertionRow(msgspec.Struct, frozen=True):
    """One assertion and how it stands."""

    assertion: Assertion
    standing: Standing
    results: tuple[ConformanceResult, ...] = ()


class ConformanceReport(msgspec.Struct, frozen=True):
    """Everything that was tested."""

    rows: tuple[AssertionRow, ...]
    runs: tuple[ResultFile, ...] = ()

    def count(self, standing: Standing) -> int:
        """Number of assertions that stand like this."""
        return sum(row.standing == standing for row in self.rows)

    @property
    def failed(self) -> bool:
        """Whether any assertion failed, or any test that ran."""
        return any(row.standing == "failed" for row in self.rows) or any(
            result.outcome == "failed" for run in self.runs for result in run.results
        )


def assemble(assertions: Sequence[Assertion], runs: Sequence[ResultFile]) -> ConformanceReport:
    """Joins assertions and results."""
    results: dict[str, list[ConformanceResult]] = {}
    for run in runs:
        for result in run.results:
            results.setdefault(base_test(result.test), []).append(result)
    return ConformanceReport(tuple(_row(assertion, results) for assertion in assertions), tuple(runs))


def base_test(test: str) -> str:
    """A test's name without its parameters: rows name tests, not each of their cases."""
    return test.partition("[")[0]


def _row(assertion: Assertion, results: dict[str, list[ConformanceResult]]) -> AssertionRow:
    if assertion.not_applicable:
        return AssertionRow(assertion, "not applicable")
    found = [result for test in assertion.tests for result in results.get(base_test(test), ())]
    ran = [result for result in found if result.outcome != "skipped"]
    if any(result.outcome == "failed" for result in ran):
        return AssertionRow(assertion, "failed", tuple(found))
    complete = ran and all(base_test(test) in results for test in assertion.tests)
    return AssertionRow(assertion, "passed" if complete else "not run", tuple(found))


def to_markdown(report: ConformanceReport) -> str:
    """The report as a page."""
    lines = ["# Conformance", "", _summary(report), ""]
    for run in report.runs:
        passed = sum(result.outcome == "passed" for result in run.results)
        lines.append(f"- {run.suite}: {passed} of {len(run.results)} tests passed ({run.started[:10]})")
    deliveries = [result for run in report.runs for result in run.results if result.test.startswith("event-delivery/")]
    if deliveries:
        lines += ["", "## Event delivery", "", "| Test | Result | Seconds |", "|---|---|---|"]
        lines += [f"| {result.test} | {result.outcome} | {result.seconds:g} |" for result in deliveries]
    for document in dict.fromkeys(row.assertion.where.partition(",")[0] for row in report.rows):
        lines += ["", f"## {document}", "", "| Id | Level | What | Result | Shown by |", "|---|---|---|---|---|"]
        for row in report.rows:
            if row.assertion.where.partition(",")[0] == document:
                shown = row.assertion.not_applicable or ", ".join(f"`{test}`" for test in row.assertion.tests)
                cells = (row.assertion.id, row.assertion.level, row.assertion.text, row.standing, shown)
                lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    lines += _failures(report)
    return "\n".join(lines) + "\n"


def to_json(report: ConformanceReport) -> bytes:
    """The report for programs."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def to_junit(report: ConformanceReport) -> bytes:
    """The report as JUnit XML: one case per assertion and one per test."""
    root = ET.Element("testsuites", name="penstock conformance")
    suite = ET.SubElement(root, "testsuite", name="assertions", tests=str(len(report.rows)))
    for row in report.rows:
        case = ET.SubElement(suite, "testcase", classname=row.assertion.where, name=row.assertion.id)
        if row.standing == "failed":
            failure = ET.SubElement(case, "failure", message=row.assertion.text)
            failure.text = "\n".join(_evidence(row.results))
        elif row.standing != "passed":
            ET.SubElement(case, "skipped", message=row.assertion.not_applicable or row.standing)
    for run in report.runs:
        suite = ET.SubElement(root, "testsuite", name=run.suite, tests=str(len(run.results)))
        for result in run.results:
            case = ET.SubElement(suite, "testcase", classname=run.suite, name=result.test, time=str(result.seconds))
            if result.outcome == "failed":
                failure = ET.SubElement(case, "failure", message="; ".join(result.problems)[:500])
                failure.text = "\n".join(_evidence([result]))
            elif result.outcome == "skipped":
                ET.SubElement(case, "skipped")
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def _summary(report: ConformanceReport) -> str:
    standings: tuple[Standing, ...] = ("passed", "failed", "not applicable", "not run")
    counts = ", ".join(f"{report.count(standing)} {standing}" for standing in standings)
    return f"{len(report.rows)} assertions of the specifications: {counts}."


def _failures(report: ConformanceReport) -> list[str]:
    failed = {result.test: result for run in report.runs for result in run.results if result.outcome == "failed"}
    if not failed:
        return []
    lines = ["", "## Failures"]
    for result in failed.values():
        lines += ["", f"### {result.test}", "", "```", *_evidence([result]), "```"]
    return lines


def _evidence(results: Iterable[ConformanceResult]) -> list[str]:
    return [
        line
        for result in results
        if result.outcome == "failed"
        for line in (result.test, *(f"problem: {problem}" for problem in result.problems), *result.evidence)
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
