"""Runs the load generator and reads its report."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from statistics import median
from typing import Any

from tools.benchmarks.stack import BUILD

TOKEN_VARIABLE = "LOADGEN_TOKEN"


@dataclass
class Load:
    """One use of the load generator; the subscribers listen from its start to its end."""

    process: subprocess.Popen[str]
    address: str

    def report(self, timeout: float = 900) -> dict[str, Any]:
        """Waits for the end and gives what was measured."""
        out, errors = self.process.communicate(timeout=timeout)
        if self.process.returncode != 0:
            raise RuntimeError(f"the load generator failed: {errors}")
        return dict(json.loads(out))


def start(url: str, listen: str, token: str = "", /, **options: object) -> Load:
    """Starts sending, with a token where one is given; options are the load generator's flags."""
    command = [str(BUILD / "loadgen"), "-url", url, "-listen", listen]
    for name, value in options.items():
        command += [f"-{name}", str(value)]
    environment = {**os.environ, TOKEN_VARIABLE: token}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    line = process.stderr.readline()
    if not line.startswith("subscribers at "):
        raise RuntimeError(f"the load generator did not start: {line}{process.stderr.read()}")
    return Load(process, line.split()[2])


def run(url: str, listen: str, token: str = "", /, **options: object) -> dict[str, Any]:
    """Sends, receives and reports."""
    return start(url, listen, token, **options).report()


def middle(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each figure over several runs; losses and duplicates are added up."""
    flat = [_flat(report) for report in reports]
    merged = {key: median(each[key] for each in flat) for key in flat[0] if all(key in each for each in flat)}
    for key in ("lost", "duplicates"):
        merged[key] = sum(each[key] for each in flat)
    return merged


def _flat(report: dict[str, Any], prefix: str = "") -> dict[str, float]:
    result: dict[str, float] = {}
    for key, value in report.items():
        if isinstance(value, dict):
            result.update(_flat(value, f"{prefix}{key}."))
        elif isinstance(value, int | float):
            result[prefix + key] = value
    return result
