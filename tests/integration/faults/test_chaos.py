"""Ten faults in a row, as `make chaos` makes them, on a stack of their own."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest
import uvloop

from tools.chaos import report
from tools.chaos.__main__ import run

FAULTS = 10
RATE = 60.0


@pytest.mark.timeout(900)
def test_ten_faults_lose_nothing_and_keep_the_order(tmp_path: Path) -> None:
    """Every victim at least once. The seed is a new one each time; CHAOS_SEED repeats one."""
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10**6))
    print(f"CHAOS_SEED={seed}")
    result = uvloop.run(run(seed, FAULTS, RATE, tmp_path))
    print(report.markdown(result))
    assert result.passed, "\n".join([f"CHAOS_SEED={seed}", *report.failures(result)])
    assert result.accepted > 1000
