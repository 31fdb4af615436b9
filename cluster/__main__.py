"""`python -m cluster [--only NAME,…] [--rate N]`: hits a cluster under load; prints how long each fault was felt."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import uvloop

from cluster.run import Result, Run, line

HEAD = """| what        | how          | taken over | events flow again | longest pause |
|---|---|---|---|---|"""


def main() -> int:
    """1 if a promise was broken; the logs are kept then."""
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    parser.add_argument("--only", default="", help="faults to try, such as pipeline,broker (default: all)")
    parser.add_argument("--rate", type=float, default=50, help="events a second (default: 50)")
    parser.add_argument("--minutes", type=float, default=16, help="no further faults after so long (default: 16)")
    parser.add_argument("--folder", type=Path, default=Path("build/cluster"), help="for data and logs")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    only = {name for name in arguments.only.split(",") if name}
    result = uvloop.run(run(folder, arguments.rate, only, arguments.minutes * 60))
    print(HEAD, *map(line, result.outcomes), sep="\n")
    print(f"\n{result.accepted:,} events accepted, {result.deliveries:,} deliveries")
    print(f"refused, and sent again: {result.refused}")
    print(f"ended by themselves, and started again: {', '.join(result.restarted) or 'none'}")
    print(f"ready after {result.start_seconds:.0f} s, all of it in {result.seconds:.0f} s")
    if result.broken:
        print("\n".join(["", "BROKEN:", *result.broken, f"logs are in {folder}"]))
        return 1
    print("nothing was lost, and every promise kept")
    shutil.rmtree(folder, ignore_errors=True)
    return 0


async def run(folder: Path, rate: float, only: set[str], most_seconds: float) -> Result:
    """One run, with everything ended after it."""
    one = Run(folder, rate, only, most_seconds, lambda text: print(text, file=sys.stderr, flush=True))
    try:
        return await one.run()
    finally:
        await one.close()


if __name__ == "__main__":
    sys.exit(main())
