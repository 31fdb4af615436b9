"""What a run of pip-audit means: silence is never good news."""

from __future__ import annotations

import json

import pytest

from tools.dependencies import audit

CLEAN = {"name": "rich", "version": "15.0.0", "vulns": []}
KNOWN = {
    "name": "h11",
    "version": "0.15.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["0.16.0"], "aliases": ["CVE-2025-1"], "description": "…"}],
}
SKIPPED = {"name": "attrs", "skip_reason": "Dependency not found on PyPI and could not be audited: attrs (26.1.0)"}


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([CLEAN], audit.CLEAN, "1 packages, nothing known"),
        ([CLEAN, KNOWN], audit.KNOWN, "h11 0.15.0: PYSEC-1, CVE-2025-1; fixed in 0.16.0"),
        ([CLEAN, SKIPPED], audit.NOT_ASKED, "NOT AUDITED: 1 of 2 packages, such as attrs"),
        ([KNOWN, SKIPPED], audit.KNOWN, "NOT AUDITED: 1 of 2 packages, such as attrs"),
        ([], audit.NOT_ASKED, "NOT AUDITED: the report names no package"),
    ],
)
def test_a_report(packages: list[object], code: int, said: str) -> None:
    verdict = audit.judge(json.dumps({"dependencies": packages, "fixes": []}).encode(), "")
    assert verdict.code == code
    assert said in "\n".join(verdict.lines)


@pytest.mark.parametrize("printed", [b"", b"Traceback", b"[]"])
def test_no_report(printed: bytes) -> None:
    verdict = audit.judge(printed, "Traceback\nConnectionError: cannot reach the database\n\n")
    assert verdict.code == audit.NOT_ASKED
    assert verdict.lines[-1] == "ConnectionError: cannot reach the database"
