"""`make fuzz`: coverage-guided fuzzing of every parser that sees foreign bytes, by Atheris (libFuzzer for Python).

Each target runs in a process of its own, since libFuzzer ends its process. What it finds is kept in `build/fuzz`, and
so are inputs that reached something new, for the next run to start from.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CORPUS = HERE / "corpus"
FOUND = Path(os.environ.get("FUZZ_FOUND") or ROOT / "build" / "fuzz")
LONGEST_INPUT = 4096
SECONDS_PER_INPUT = 20
"""Of processor time: on a busy machine an input may wait far longer for its turn."""
HUNG_SECONDS = 600
"""Of any time, after which libFuzzer ends an input that never comes to its end."""
MOST_MIB = 1024
WARM_UP = 20_000
"""Inputs after which caches are full, so that memory may not grow much any more."""
GROWTH_MIB = 200
"""libFuzzer itself keeps what it found worth keeping."""
_RUNS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_RATE = re.compile(r"stat::average_exec_per_sec:\s*(\d+)")
_PEAK = re.compile(r"stat::peak_rss_mb:\s*(\d+)")


@dataclass(frozen=True)
class Outcome:
    """How one target fared."""

    target: str
    inputs: int
    per_second: int
    peak_mib: int
    code: int
    output: str

    @property
    def line(self) -> str:
        """For the table."""
        figures = f"{self.inputs:>9} inputs  {self.per_second:>6}/s  {self.peak_mib:>5} MiB"
        return f"{self.target:14} {figures}  {'ok' if not self.code else 'FOUND'}"


def names() -> list[str]:
    """The targets: each has a folder of examples to start from."""
    return sorted(path.name for path in CORPUS.iterdir() if path.is_dir())


def fuzz(targets: list[str], told: Callable[[Outcome], None], *, seconds: int, runs: int, seed: int) -> None:
    """Runs the targets one after the other. Everything is imported once: what Atheris does to a module takes time."""
    import atheris

    with atheris.instrument_imports(include=["penstock", "jsonpatch", "jsonpointer"]):
        from tests.unit.fuzz.fuzz_targets import TARGETS
    limits = [f"-max_total_time={seconds}"] * bool(seconds) + [f"-runs={runs}"] * bool(runs) + [f"-seed={seed}"]
    for target in targets:
        told(_in_child(target, lambda name=target: _run(name, TARGETS[name], limits)))  # type: ignore[misc]


def _in_child(target: str, work: Callable[[], None]) -> Outcome:
    """libFuzzer ends the process that it runs in."""
    FOUND.mkdir(parents=True, exist_ok=True)
    log = FOUND / f"{target}.log"
    child = os.fork()
    if child == 0:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        work()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    output = log.read_text(errors="replace")
    inputs, rate, peak = (int(found[1]) if (found := one.search(output)) else 0 for one in (_RUNS, _RATE, _PEAK))
    return Outcome(target, inputs, rate, peak, os.waitstatus_to_exitcode(status), output[-6000:])


def _run(name: str, make: Callable[[], Callable[[bytes], None]], limits: list[str]) -> None:
    import atheris

    grown = FOUND / "corpus" / name
    grown.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_len={LONGEST_INPUT}",
        f"-timeout={HUNG_SECONDS}",
        f"-rss_limit_mb={MOST_MIB}",
        f"-artifact_prefix={FOUND}/{name}-",
        "-print_final_stats=1",
        *limits,
        str(grown),
        str(CORPUS / name),
    ]
    atheris.Setup([sys.argv[0], *options], _bounded(make()))
    atheris.Fuzz()


def _bounded(target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The target, which fails where memory grows with the number of inputs, and where one takes long."""
    import psutil

    process, count, settled = psutil.Process(), 0, 0

    def one(data: bytes) -> None:
        nonlocal count, settled
        count += 1
        if count >= WARM_UP and count % 1000 == 0:
            now = process.memory_info().rss
            settled = settled or now
            if now - settled > GROWTH_MIB * 1024 * 1024:
                raise MemoryError(f"{(now - settled) >> 20} MiB more than after {WARM_UP} inputs")
        begun = time.process_time()
        target(data)
        if (taken := time.process_time() - begun) > SECONDS_PER_INPUT:
            raise TimeoutError(f"{taken:.0f} s of processor time")

    return one


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target; 0: as long as --runs takes")
    parser.add_argument("--runs", type=int, default=0, help="inputs for each target, if that is sooner")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--target", action="append", choices=names())
    given = parser.parse_args()
    outcomes: list[Outcome] = []

    def told(outcome: Outcome) -> None:
        outcomes.append(outcome)
        print(outcome.line, flush=True)
        if outcome.code:
            print(outcome.output, flush=True)

    sys.path.insert(0, str(ROOT))
    fuzz(given.target or names(), told, seconds=given.seconds, runs=given.runs, seed=given.seed)
    return 1 if any(outcome.code for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
