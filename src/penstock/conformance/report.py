"""The table of assertions with the results of the last runs: for people (Markdown), programs (JSON), CI (JUnit)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from penstock.conformance.assertions import Assertion
from penstock.conformance.results import ConformanceResult, ResultFile

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
