"""`python -m tools.chaos.soak`: a modest load for hours, about one route change a second, Replays, and restarts.

At the end every accepted event is accounted for, by the books of the run and by `penstock verify`. The memory of every
process is sampled throughout.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import secrets
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from penstock.runtime.times import rfc3339_milli
from tools.benchmarks import objects
from tools.chaos import memory, plan, routes
from tools.chaos.__main__ import conclude, perform, say
from tools.chaos.changes import Pace
from tools.chaos.checker import Era, Expected
from tools.chaos.experiments import Experiment
from tools.chaos.faults import NotFound, strike
from tools.chaos.plan import Fault, Way
from tools.chaos.recovery import RECOVERY_SECONDS, clock
from tools.chaos.results import SOAK, Step
from tools.chaos.run import Run
from tools.chaos.stack import NotStarted

CHANGERS = 12
"""Side by side: each change takes some seconds until it is Ready."""
CHANGE_SECONDS = 1.0
RESTART_SECONDS = 360.0
REPLAY_SECONDS = 180.0
SAMPLE_SECONDS = 15.0
REPLAY_TARGETS = ("ordered", "flaky", "slow", routes.COMES_AND_GOES)
"""Routes whose events are replayed in turn."""
MOST_REPLAYED_SECONDS, LEAST_AGE_SECONDS = 120.0, 20.0
"""A Replay has the events that were accepted between these two ages."""
CLOCKS_SECONDS = 2.0
"""Kafka dates events by the wall clock, at some moment between sending and the 202: events this close to the beginning
or end of a window may be replayed or not."""

Obj = dict[str, Any]


@dataclass(frozen=True)
class Replay:
    """A Replay of what a steady route got between two moments of the monotonic clock."""

    name: str
    target: routes.Route
    begin: float
    end: float

    def manifest(self, monotonic: float, wall: float) -> Obj:
        """The object, given the same moment on both clocks."""
        since, until = (rfc3339_milli(wall + moment - monotonic) for moment in (self.begin, self.end))
        return {
            "apiVersion": "penstock.dev/v1alpha1",
            "kind": "Replay",
            "metadata": {"name": self.name},
            "spec": {"target": {"kind": "Trigger", "name": f"chaos-{self.target.name}"}, "from": since, "to": until},
        }

    def expected(self) -> Expected:
        """What its deliveries must be. The receiver writes them down under the name of the Replay."""
        window = Era(
            self.target.types,
            requested=self.begin - CLOCKS_SECONDS,
            in_force=self.begin + CLOCKS_SECONDS,
            settled=self.end - CLOCKS_SECONDS,
            replaced=self.end + CLOCKS_SECONDS,
        )
        return Expected(self.name, [window], self.target.ordered)


def replay(number: int, now: float, began: float) -> Replay:
    """The Replay of this number, of events that were accepted after the load began."""
    name = REPLAY_TARGETS[number % len(REPLAY_TARGETS)]
    target = next(route for route in routes.STEADY if route.name == name)
    begin = max(began, now - MOST_REPLAYED_SECONDS)
    return Replay(f"replay-{number}", target, begin, now - LEAST_AGE_SECONDS)


def restarts(seed: int, count: int) -> list[Fault]:
    """Which parts are ended, and how. None is frozen, and none is hit before the stack has recovered from the last."""
    return [fault for fault in plan.sequence(seed, 3 * count + 3) if fault.way is not Way.FREEZE][:count]


def succeeded(found: Obj) -> bool | None:
    """Whether a Replay delivered everything; None while it runs."""
    conditions = (found.get("status") or {}).get("conditions") or []
    status = next((one["status"] for one in conditions if one["type"] == "Succeeded"), "Unknown")
    return None if status == "Unknown" else status == "True"


class Soak(Experiment):
    """Hours of modest load, route changes, Replays and restarts."""

    name = SOAK
    what = "a modest load for hours, a route change every second, Replays, and restarts"
    pace = Pace(CHANGERS, CHANGE_SECONDS)

    def __init__(self, seed: int, seconds: float) -> None:
        self._seconds = seconds
        self._pause = min(RESTART_SECONDS, seconds / 3)
        self.restarts = restarts(seed, int(seconds / self._pause - 0.5))
        self._began = 0.0
        self._replays: list[Obj] = []

    async def strike(self, run: Run) -> None:
        """Everything that happens beside load and route changes."""
        self._began = clock()
        sampling = asyncio.create_task(self._sample(run))
        replaying = asyncio.create_task(self._replay(run))
        try:
            await self._restart(run)
            await asyncio.sleep(self._left)
        finally:
            replaying.cancel()
            sampling.cancel()
            results = await asyncio.gather(replaying, sampling, return_exceptions=True)
        for problem in results:
            if isinstance(problem, Exception):
                raise problem
        await self._finish_replays(run)
        await self._verify(run)

    @property
    def _left(self) -> float:
        return max(0.0, self._began + self._seconds - clock())

    async def _restart(self, run: Run) -> None:
        for number, fault in enumerate(self.restarts, start=1):
            await asyncio.sleep(max(0.0, self._began + number * self._pause - clock()))
            try:
                with run.supervisor_may_end(may=fault.victim == plan.SUPERVISOR):
                    await run.step(f"{fault.victim}, {fault.way}", functools.partial(strike, fault, run.stack))
            except (NotFound, NotStarted) as problem:
                run.problem(str(problem))
                return

    async def _sample(self, run: Run) -> None:
        while True:
            record, at = run.stack.record, clock() - self._began
            await asyncio.to_thread(memory.take, run.result.memory, record, at)
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _replay(self, run: Run) -> None:
        while True:
            await asyncio.sleep(min(REPLAY_SECONDS, self._seconds / 4))
            now = clock()
            made = replay(run.result.replays, now, self._began)
            expected = made.expected()
            expected.start = run.changes.lowest_number()
            manifest = made.manifest(now, time.time())
            await run.changes.insist(functools.partial(_create, manifest))
            run.expected.append(expected)
            run.result.replays += 1
            self._replays.append(manifest)

    async def _finish_replays(self, run: Run) -> None:
        deadline, left = clock() + RECOVERY_SECONDS, list(self._replays)
        while left and clock() < deadline:
            found = [await run.changes.insist(functools.partial(_get, one)) for one in left]
            for one in found:
                if succeeded(one) is False:
                    run.problem(f"{one['metadata']['name']} did not succeed: {one['status']['conditions']}")
            left = [one for one, state in zip(left, found, strict=True) if succeeded(state) is None]
            await asyncio.sleep(1.0)
        for one in left:
            run.problem(f"{one['metadata']['name']} has not ended within {RECOVERY_SECONDS:g} s")

    async def _verify(self, run: Run) -> None:
        """`penstock verify`, the stack's own account of what it accepted until a minute ago."""
        since = f"{int(clock() - self._began) + 60}s"
        process = await asyncio.create_subprocess_exec(
            *(str(Path(sys.executable).with_name("penstock")), "verify", "--namespace", routes.NAMESPACE),
            *("--since", since, "--until", "60s", "--data-dir", str(run.stack.data)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        shown, _ = await process.communicate()
        last = (shown.decode().strip().splitlines() or ["nothing was printed"])[-1]
        run.result.steps.append(Step("`penstock verify`", clock() - self._began, None, None, last))
        if process.returncode:
            run.problem(f"penstock verify ended with {process.returncode}:\n{shown.decode()}")


def _create(obj: Obj, api: objects.Api) -> None:
    api.create([obj], routes.NAMESPACE)


def _get(obj: Obj, api: objects.Api) -> Obj:
    return api.get(obj, routes.NAMESPACE)


def main() -> int:
    """The exit code: 1 if a promise was broken. The data folder is kept then."""
    parser = argparse.ArgumentParser(prog="tools.chaos.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=0, help="of load")
    parser.add_argument("--minutes", type=float, default=0, help="of load, in addition (default: an hour in all)")
    parser.add_argument("--rate", type=float, default=25, help="events a second (default: 25)")
    parser.add_argument("--seed", type=int, help="the same seed gives the same restarts (default: random)")
    parser.add_argument("--folder", type=Path, default=Path("build/soak"), help="for the report and the data")
    parser.add_argument("--publish", action="store_true", help="write the figures into docs/ if the run has passed")
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    minutes = arguments.hours * 60 + arguments.minutes or 60
    say(f"{minutes:g} minutes at {arguments.rate:g} events a second; the same restarts with SEED={seed}")
    folder = arguments.folder / "run"
    shutil.rmtree(folder, ignore_errors=True)
    soak = Soak(seed, minutes * 60)
    result = uvloop.run(perform(Run(soak, seed, arguments.rate, folder, say)))
    return conclude(result, arguments.folder, folder, publish=arguments.publish)


if __name__ == "__main__":
    sys.exit(main())
