"""The experiment that `make chaos` does unless it is asked for another: processes are hit in random order."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from tools.chaos import plan
from tools.chaos.experiments import Experiment
from tools.chaos.faults import NotFound, strike
from tools.chaos.plan import Fault
from tools.chaos.recovery import RECOVERY_SECONDS, clock
from tools.chaos.results import Outcome
from tools.chaos.stack import NotStarted

if TYPE_CHECKING:
    from tools.chaos.run import Run


PROCESSES = "processes"


class ProcessFaults(Experiment):
    """Processes are killed, frozen for seconds and told to end, in an order that follows from the seed."""

    name = PROCESSES
    what = "processes are killed, told to end and frozen for seconds, in random order"

    def __init__(self, seed: int, faults: int, most_seconds: float = math.inf) -> None:
        self.faults = plan.sequence(seed, faults)
        self._most_seconds = most_seconds

    async def strike(self, run: Run) -> None:
        """One fault after the other, each when the stack has recovered from the one before it, or during that."""
        began = clock()
        for fault, following in zip(self.faults, [*self.faults[1:], None], strict=True):
            if clock() - began > self._most_seconds and not fault.hurried:
                run.result.faults = len(run.result.outcomes)
                run.say(f"the time is up after {run.result.faults} faults")
                return
            await asyncio.sleep(fault.pause)
            overtaken = following is not None and following.hurried
            try:
                outcome = await self._one(run, fault, overtaken=overtaken)
            except (NotFound, NotStarted) as problem:
                run.problem(f"fault {fault.number}: {problem}")
                return
            run.result.outcomes.append(outcome)
            run.say(_line(run, outcome))
            if outcome.recovery is None and not overtaken:
                run.problem(f"fault {fault.number}: nothing new was delivered within {RECOVERY_SECONDS:g} s")
                return

    async def _one(self, run: Run, fault: Fault, *, overtaken: bool) -> Outcome:
        with run.supervisor_may_end(may=fault.victim == plan.SUPERVISOR):
            measured = await run.measure(lambda: strike(fault, run.stack), wait=not overtaken)
        note = "" if measured.blow.obeyed else "did not end by SIGTERM"
        return Outcome(fault, measured.at, measured.recovery, measured.silence, note)


def _line(run: Run, outcome: Outcome) -> str:
    fault = outcome.fault
    way = f"{fault.way} for {fault.frozen:.1f} s" if fault.frozen else str(fault.way)
    took = "no recovery seen" if outcome.recovery is None else f"{outcome.recovery:6.2f} s"
    hurried = " (during recovery)" if fault.hurried else ""
    return (
        f"[{fault.number:>3}/{run.result.faults}] {outcome.at:6.0f} s  {fault.victim:<17} {way:<18} {took}"
        f"{hurried}  {outcome.note}  {run.counts}"
    )
