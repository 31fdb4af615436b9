"""`make audit`: known vulnerabilities of the pinned Python packages, by pip-audit, which asks the database of osv.dev.

Where the database cannot be asked, or not about every package, that is said, and the exit code is 3: nobody should take
silence for good news. Exit code 1 means that something is known.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
TOOL = "pip-audit==2.10.1"
"""Not in `requirements.lock`: it would bring sixteen packages into every environment for a command that few run."""
PLACE = ROOT / "build" / "audit"

CLEAN, KNOWN, NOT_ASKED = 0, 1, 3


class Vulnerability(msgspec.Struct):
    """What is known against a version of a package."""

    id: str
    fix_versions: list[str] = []
    aliases: list[str] = []


class Audited(msgspec.Struct):
    """A package in pip-audit's report."""

    name: str
    version: str = ""
    vulns: list[Vulnerability] = []
    skip_reason: str = ""


class Report(msgspec.Struct):
    """What pip-audit prints."""

    dependencies: list[Audited]


_REPORT = msgspec.json.Decoder(Report)


@dataclass(frozen=True)
class Verdict:
    """What to say, and the exit code."""

    code: int
    lines: list[str]


def judge(printed: bytes, complaints: str) -> Verdict:
    """What a run of pip-audit means. Its own exit code is 0 also where it could look nothing up."""
    try:
        report = _REPORT.decode(printed)
    except msgspec.MsgspecError:
        reason = next((line for line in reversed(complaints.splitlines()) if line.strip()), "it gave no reason")
        return Verdict(NOT_ASKED, ["NOT AUDITED: pip-audit could not ask for known vulnerabilities.", reason[:500]])
    known = [one for one in report.dependencies if one.vulns]
    skipped = [one for one in report.dependencies if one.skip_reason]
    lines = [_line(one, what) for one in known for what in one.vulns]
    if skipped:
        lines.append(f"NOT AUDITED: {len(skipped)} of {len(report.dependencies)} packages, such as {skipped[0].name}.")
        lines.append(skipped[0].skip_reason)
    if known:
        return Verdict(KNOWN, lines)
    if skipped or not report.dependencies:
        return Verdict(NOT_ASKED, lines or ["NOT AUDITED: the report names no package."])
    return Verdict(CLEAN, [f"{len(report.dependencies)} packages, nothing known against any of them"])


def _line(one: Audited, what: Vulnerability) -> str:
    names = ", ".join([what.id, *what.aliases])
    fixed = f"fixed in {', '.join(what.fix_versions)}" if what.fix_versions else "no fixed version yet"
    return f"{one.name} {one.version}: {names}; {fixed}"


def main() -> int:
    """Runs pip-audit and says what came out. The exit code."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    if subprocess.run([*pip, "--target", str(PLACE), TOOL], check=False).returncode != 0:
        print(f"NOT AUDITED: {TOOL} could not be installed into {PLACE.relative_to(ROOT)}, see above.", file=sys.stderr)
        return NOT_ASKED
    asked = ["--requirement", "requirements.lock", "--no-deps", "--disable-pip", "--vulnerability-service", "osv"]
    ran = subprocess.run(
        [sys.executable, "-m", "pip_audit", *asked, "--format", "json", "--progress-spinner", "off"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(PLACE)},
        capture_output=True,
        check=False,
    )
    verdict = judge(ran.stdout, ran.stderr.decode(errors="replace"))
    print("\n".join(verdict.lines), file=sys.stderr if verdict.code else sys.stdout)
    return verdict.code


if __name__ == "__main__":
    sys.exit(main())
