"""`python -m tools.chaos`: hits a stack under load and proves that it kept its promises.

Without --faults, processes are killed, frozen for seconds and told to end in random order. With --faults, each fault
that is named gets a stack of its own, and the check of its books.
"""

from __future__ import annotations

import argparse
import math
import secrets
import shutil
import sys
from pathlib import Path

import uvloop

from tools.chaos import disks, report
from tools.chaos.catalogue import experiments
from tools.chaos.experiments import Experiment
from tools.chaos.freezes import FROZEN_SECONDS
from tools.chaos.process_faults import ProcessFaults
from tools.chaos.results import Result
from tools.chaos.run import Run

PAGE = Path("docs/reliability.md")


def main() -> int:
    """Runs what was asked for. 1 if a promise was broken; the data folder is kept then. 2 if this machine lacks what a
    fault needs."""
    arguments = _parser().parse_args()
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    if not arguments.faults:
        say(f"{arguments.kills} faults at {arguments.rate:g} events a second; the same again with SEED={seed}")
        folder = arguments.folder / f"run-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        result = uvloop.run(run(seed, arguments.kills, arguments.rate, folder, arguments.minutes))
        return conclude(result, arguments.folder, folder, publish=arguments.publish)
    known = experiments(arguments.seconds)
    chosen = list(known.values()) if arguments.faults == ["all"] else [known[name] for name in arguments.faults]
    if any(one.mounts for one in chosen) and disks.missing() is None and not disks.inside():
        disks.enter([sys.executable, "-m", "tools.chaos", *sys.argv[1:]])
    return max([one_experiment(one, seed, arguments) for one in chosen])


def one_experiment(one: Experiment, seed: int, arguments: argparse.Namespace) -> int:
    """The exit code of a run with one kind of fault."""
    if (lacking := one.missing()) is not None:
        say(f"{one.name} cannot be tried here: {lacking}")
        return 2
    folder = arguments.folder / one.name
    shutil.rmtree(folder, ignore_errors=True)
    say(f"{one.name}: {one.what}; {arguments.rate:g} events a second, SEED={seed}")
    result = uvloop.run(perform(Run(one, seed, arguments.rate, folder, say)))
    return conclude(result, arguments.folder, folder, publish=arguments.publish)


def conclude(result: Result, reports: Path, folder: Path, *, publish: bool) -> int:
    """Prints and keeps what a run has shown; its exit code."""
    report.write(result, reports)
    print(report.markdown(result))
    if not result.passed:
        say("\n".join(["", *report.failures(result), f"FAILED: data and logs are kept in {folder}"]))
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    if publish:
        report.publish(result, PAGE)
    return 0


async def run(seed: int, faults: int, rate: float, folder: Path, minutes: float = math.inf) -> Result:
    """A run in which processes are hit in random order."""
    return await perform(Run(ProcessFaults(seed, faults, minutes * 60), seed, rate, folder, say, faults=faults))


async def perform(one: Run) -> Result:
    """A run, with its stack ended after it."""
    try:
        return await one.run()
    finally:
        await one.close()


def say(text: str) -> None:
    """Progress, on the terminal."""
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    known = experiments()
    width = max(map(len, known))
    listed = "\n".join(f"  {name:<{width}}  {one.what}" for name, one in known.items())
    parser = argparse.ArgumentParser(
        prog="tools.chaos",
        description=__doc__,
        epilog=f"faults:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=30, help="number of faults (default: 30)")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="no further faults after so long, but the check"
    )
    parser.add_argument(
        "--faults",
        type=_names,
        default=[],
        metavar="NAME,…",
        help="these, listed below, one after the other in place of the random ones; 'all' for every one",
    )
    parser.add_argument(
        "--seconds", type=_numbers, default=FROZEN_SECONDS, metavar="N,…", help="how long to freeze (default: 180,360)"
    )
    parser.add_argument("--seed", type=int, help="the same seed gives the same sequence of victims (default: random)")
    parser.add_argument("--rate", type=float, default=100, help="events a second (default: 100)")
    parser.add_argument("--folder", type=Path, default=Path("build/chaos"), help="for the report and the data")
    parser.add_argument("--publish", action="store_true", help=f"write the figures into {PAGE} if the run has passed")
    return parser


def _names(text: str) -> list[str]:
    names = text.split(",")
    if names != ["all"] and (unknown := [name for name in names if name not in experiments()]):
        raise argparse.ArgumentTypeError(f"unknown fault {', '.join(unknown)}")
    return names


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
