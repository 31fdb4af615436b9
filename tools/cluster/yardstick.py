"""How quick this machine is at this moment, beside everything else that it does.

Pauses are promised for a machine that has time to recover. What a run measures on one that is busy with other work, or
slow, says little about penstock; so each fault is measured together with the machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

REFERENCE_SECONDS = 0.55
"""What the calculation takes on a core (AMD EPYC, 2026) that does nothing else."""
QUICK = 2.0
"""Up to so many times as long, with the cluster under load on the same cores, pauses must be within their bounds."""
LIMIT_SECONDS = 120.0
CALCULATION = """
import time
began = time.perf_counter()
found = 0
for number in range(4_800_000):
    found = (found * 31 + number) % 1_000_003
print(time.perf_counter() - began)
"""


async def slowness() -> float:
    """How many times as long as on the reference a calculation takes now, on two cores at once."""
    cores = min(2, os.cpu_count() or 1)
    return max(await asyncio.gather(*(_calculate() for _ in range(cores)))) / REFERENCE_SECONDS


async def _calculate() -> float:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", CALCULATION, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    began = time.monotonic()
    try:
        said, _ = await asyncio.wait_for(process.communicate(), LIMIT_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        return time.monotonic() - began
    return float(said)
