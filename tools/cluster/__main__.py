"""`python -m tools.cluster [--only NAME,…] [--rate N]`: hits a cluster under load; prints how long each fault was felt.

Exit codes: 1 if a promise was broken (the logs are kept then), 2 if this machine lacks something.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import uvloop

from penstock.engine import java
from penstock.engine.jars import jar_cache
from penstock.settings import Settings
from tools.cluster import kubernetes_binaries, needs, own_network, results
from tools.cluster.results import Result
from tools.cluster.run import DEFAULT, MORE, Run


def main() -> int:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(prog="tools.cluster", description=__doc__)
    names = ", ".join((*DEFAULT, *MORE))
    parser.add_argument("--only", default="", help=f"faults to try, of {names} (default: the first {len(DEFAULT)})")
    parser.add_argument("--rate", type=float, default=30, help="events a second (default: 30)")
    parser.add_argument("--minutes", type=float, default=14, help="no further faults after so long (default: 14)")
    parser.add_argument("--folder", type=Path, default=Path("build/cluster"), help="for the report")
    arguments = parser.parse_args()
    only = tuple(name for name in arguments.only.split(",") if name)
    if unknown := sorted({*only} - {*DEFAULT, *MORE}):
        parser.error(f"there is no fault {', '.join(unknown)}: choose of {names}")
    if not own_network.inside():
        if code := _prepared():
            return code
        own_network.enter([sys.executable, "-m", "tools.cluster", *sys.argv[1:]])
        print(own_network.NOT_ALLOWED, file=sys.stderr)
    # Elsewhere than the files that a Worker must not see.
    folder = Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
    result = uvloop.run(run(folder, arguments.rate, only, arguments.minutes * 60))
    results.write(result, arguments.folder)
    print(results.markdown(result))
    if result.broken:
        print("\n".join(["", "BROKEN:", *result.broken, f"logs are in {folder}"]))
        return 1
    print("nothing was lost, and every promise kept")
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _prepared() -> int:
    """Says what is missing, and builds what can be; the exit code."""
    problems = list(needs.missing())
    for problem in problems:
        print(f"This machine lacks something for a cluster: {problem.what}\n  {problem.remedy}", file=sys.stderr)
    if problems:
        return 2
    if kubernetes_binaries.build(*kubernetes_binaries.PROGRAMS):
        return 2
    jar_cache.resolve(Settings(), java.find_java())  # from outside: there is no other machine in a network of one's own
    return 0


async def run(folder: Path, rate: float, only: tuple[str, ...], most_seconds: float) -> Result:
    """One run, with everything ended after it."""
    one = Run(folder, rate, only, most_seconds, lambda text: print(text, file=sys.stderr, flush=True))
    try:
        return await one.run()
    except BaseException:
        print(f"logs are in {folder}", file=sys.stderr)
        raise
    finally:
        await one.close()


if __name__ == "__main__":
    sys.exit(main())
