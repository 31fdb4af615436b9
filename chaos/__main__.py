"""`python -m chaos [--kills N] [--seed N] [--rate N]`: hits a stack under load and proves that it kept its promises."""

from __future__ import annotations

import argparse
import math
import secrets
import shutil
import sys
from pathlib import Path

import uvloop

from chaos import report
from chaos.run import Result, Run

PAGE = Path("docs/reliability.md")


def main() -> int:
    """Runs what was asked for. 1 if a promise was broken; the data folder is kept then."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=30, help="number of faults (default: 30)")
    parser.add_argument("--seed", type=int, help="the same seed gives the same sequence of victims (default: random)")
    parser.add_argument("--rate", type=float, default=100, help="events a second (default: 100)")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="no further faults after so long, but the check"
    )
    parser.add_argument("--folder", type=Path, default=Path("build/chaos"), help="for the report and the data")
    parser.add_argument("--publish", action="store_true", help=f"write the figures into {PAGE} if the run has passed")
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    say(f"{arguments.kills} faults at {arguments.rate:g} events a second; the same again with SEED={seed}")
    data = arguments.folder / f"run-{seed}"
    shutil.rmtree(data, ignore_errors=True)
    result = uvloop.run(run(seed, arguments.kills, arguments.rate, data, arguments.minutes))
    report.write(result, arguments.folder)
    print(report.markdown(result))
    if not result.passed:
        say("\n".join(["", *report.failures(result), f"FAILED: data and logs are kept in {data}"]))
        return 1
    shutil.rmtree(data, ignore_errors=True)
    if arguments.publish:
        report.publish(result, PAGE)
    return 0


async def run(seed: int, faults: int, rate: float, folder: Path, minutes: float = math.inf) -> Result:
    """One run, with the stack ended after it."""
    one = Run(seed, faults, rate, folder, say, most_seconds=minutes * 60)
    try:
        return await one.run()
    finally:
        await one.close()


def say(text: str) -> None:
    """Progress, on the terminal."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
