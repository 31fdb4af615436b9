"""`make simulate SECONDS=60 SEED=7`: histories of the whole stack on one virtual clock, one after the other.

A history follows from its seed alone; now and then one happens twice, to see whether that is true. One in which a
promise was broken is shrunk: what can be left out while the same promise is broken, is. What is left is printed, as a
story to read and as a value for `found_stories.py`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

if os.environ.get("PYTHONHASHSEED") != "0" and __name__ == "__main__":
    # Sets of names are in the same order in every run.
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.simulation import sim_stack
from tests.simulation.found_stories import FOUND
from tests.simulation.sim_history import Outcome, happen
from tests.simulation.sim_story import Story, make

TWICE = 25
"""One history in so many happens twice."""
SHRINK_SECONDS = 120.0
LOG_LINES = 40
"""That are shown of the beginning, and of the end."""


@dataclass
class Total:
    """What all histories came to."""

    begun: float
    histories: int = 0
    events: int = 0
    deliveries: int = 0
    hours: float = 0.0
    """By their own clocks."""
    steps: Counter[str] = field(default_factory=Counter)
    seen_in: Counter[str] = field(default_factory=Counter)
    """In how many histories a kind of step had an effect."""

    def add(self, outcome: Outcome) -> None:
        """Takes in one more."""
        self.histories += 1
        self.events += outcome.events
        self.deliveries += outcome.deliveries
        self.hours += outcome.seconds / 3600
        self.steps.update(outcome.happened)
        self.seen_in.update(outcome.happened.keys())

    def __str__(self) -> str:
        seconds = time.monotonic() - self.begun
        rows = [f"  {kind:36} {self.steps[kind]:>8,} {self.seen_in[kind]:>11,}" for kind in sorted(self.steps)]
        return "\n".join(
            [
                f"  {'what happened':36} {'times':>8} {'histories':>11}",
                *rows,
                f"{self.histories:,} histories in {seconds:.0f} s ({self.histories / seconds:.1f} a second) of "
                f"{self.hours:.1f} hours, {sum(self.steps.values()):,} steps, {self.events:,} events, "
                f"{self.deliveries:,} deliveries",
            ]
        )


def run(stories: Iterator[Story], seconds: float, total: Total) -> Outcome | None:
    """Lets stories happen until the time is over; the first in which a promise was broken."""
    for number, story in enumerate(stories):
        outcome = happen(story)
        total.add(outcome)
        if outcome.broken:
            return outcome
        if number % TWICE == 0 and happen(story).digest != outcome.digest:
            raise SystemExit(f"seed {story.seed} does not give the same history twice")
        if time.monotonic() - total.begun >= seconds:
            return None
    return None


def shrink(outcome: Outcome, told: Callable[[str], None]) -> Outcome:
    """What is left when all is left out without which the same promise is broken all the same."""
    until = time.monotonic() + SHRINK_SECONDS
    promises = {broken.promise for broken in outcome.broken}

    def tried(story: Story) -> Outcome | None:
        if time.monotonic() > until:
            return None
        found = happen(story)
        return found if promises & {broken.promise for broken in found.broken} else None

    size = max(1, len(outcome.story.steps) // 2)
    while size:
        place, shorter = 0, False
        while place < len(outcome.story.steps):
            found = tried(outcome.story.without(range(place, place + size)))
            if found is None:
                place += size
            else:
                outcome, shorter = found, True
                told(f"{len(outcome.story.steps)} steps")
        size = size if shorter and size == 1 else size // 2
    for simpler in ({"executors": 0}, {"partitions": 1}, {"settings": ()}, {"notes_flushed": True}):
        outcome = tried(replace(outcome.story, **simpler)) or outcome
    return outcome


def show(outcome: Outcome) -> None:
    """The story, what was seen, and what was broken."""
    print(outcome.story)
    left_out = len(outcome.log) - 2 * LOG_LINES
    log = [*outcome.log[:LOG_LINES], f"... {left_out} lines ...", *outcome.log[-LOG_LINES:]]
    print(*(log if left_out > 0 else outcome.log), sep="\n")
    print(*(f"BROKEN  {broken}" for broken in outcome.broken[:20]), sep="\n")
    print(f"{outcome.events} events, {outcome.deliveries} deliveries, {outcome.seconds:.3f} s, digest {outcome.digest}")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make simulate")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first history; the others have the next ones")
    parser.add_argument("--found", action="store_true", help="the stories that were found, and no others")
    parser.add_argument("--show", action="store_true", help="show the first history, whatever comes of it")
    arguments = parser.parse_args()
    sim_stack.connect()
    seed = random.SystemRandom().randrange(10**9) if arguments.seed is None else arguments.seed
    stories = iter(FOUND) if arguments.found else map(make, range(seed, sys.maxsize))
    print("the stories that were found" if arguments.found else f"from seed {seed} on", flush=True)
    if arguments.show:
        show(happen(next(stories)))
        return 0
    total = Total(time.monotonic())
    failed = run(stories, float("inf") if arguments.found else arguments.seconds, total)
    print(total)
    if failed is None:
        return 0
    print(f"seed {failed.story.seed} breaks a promise:", *failed.broken[:20], sep="\n  ", flush=True)
    shrunk = shrink(failed, lambda text: print(f"shrunk to {text}", flush=True))
    show(shrunk)
    print(f"for found_stories.py:\n{shrunk.story!r}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
