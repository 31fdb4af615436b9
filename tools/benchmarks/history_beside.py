"""What the history costs whom it runs beside, in turn: latency while its writer rests and while it writes what has
gathered, and the highest rate while it rests and with the writer coming and going as it does by itself.

    python -m tools.benchmarks.history_beside

One stack that keeps its history. While the writer rests there is no process of it, and `penstock dev` looks at the ends
of two topics now and then: so resting stands for a stack without a history.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from penstock.engine.history.progress_file import FLUSH_REQUEST
from tools.benchmarks import loadgen, objects, special
from tools.benchmarks.objects import Api
from tools.benchmarks.scenarios import one_of
from tools.benchmarks.stack import Penstock, build_loadgen, free_port

PACED = {"rate": 1000, "warmup": "2s", "duration": "12s", "settle": "30s"}
FLAT_OUT = {"warmup": "2s", "settle": "60s"}
SHORT, LONG = "8s", "40s"
"""Flat out, the writer is not started before the first is over, and several times during the second."""


def main() -> None:
    """Prints what was measured as JSON."""
    build_loadgen()
    print(json.dumps(measure(f"127.0.0.1:{free_port()}"), indent=2))


def measure(listen: str, rounds: int = 3) -> dict[str, Any]:
    """Each load with the writer resting, then writing; several times in turn."""
    stack = Penstock("--set", "history=true")
    try:
        api = Api(stack.kubeconfig)
        api.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": objects.NAMESPACE}}])
        special.warm_up(stack, api, listen)
        write_all(stack)
        idle = special.idle(stack, 10)
        special.prepare(api, "beside", one_of(1)(f"http://{listen}/s/"))
        url = stack.url("/bench/beside")
        reports: dict[str, list[dict[str, Any]]] = {}

        def keep(name: str, report: dict[str, Any]) -> None:
            reports.setdefault(name, []).append(report)

        runs = 0
        for _ in range(rounds):
            keep("paced_resting", loadgen.run(url, listen, **PACED))
            write_all(stack)
            keep("flat_out_resting", loadgen.run(url, listen, duration=SHORT, **FLAT_OUT))
            _ask(stack)  # what the load before has left is about as much as it is started for by itself
            keep("paced_writing", loadgen.run(url, listen, **PACED))
            write_all(stack)
            with counting_runs(stack) as counted:
                keep("flat_out_keeping", loadgen.run(url, listen, duration=LONG, **FLAT_OUT))
            runs += counted[0]
            write_all(stack)
        return {"idle_writers": int("history" in idle["by_process"]), "runs_of_the_writer": runs, **figures(reports)}
    finally:
        stack.stop()


def figures(reports: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Medians, and the medians of the ratios of each round."""
    p99 = {name: [one["send_to_receive"]["p99_ms"] for one in reports[f"paced_{name}"]] for name in PACED_STATES}
    rate = {name: [one["delivered_per_second"] for one in reports[f"flat_out_{name}"]] for name in FLAT_OUT_STATES}
    return {
        **{f"p99_ms_{name}": median(found) for name, found in p99.items()},
        "p99_ratio": median(w / r for w, r in zip(p99["writing"], p99["resting"], strict=True)),
        **{f"rate_{name}": median(found) for name, found in rate.items()},
        "rate_ratio": median(k / r for k, r in zip(rate["keeping"], rate["resting"], strict=True)),
        "lost": sum(one["lost"] for found in reports.values() for one in found),
    }


PACED_STATES = ("resting", "writing")
FLAT_OUT_STATES = ("resting", "keeping")


def write_all(stack: Penstock) -> None:
    """Has everything written, and waits until the writer rests."""
    _ask(stack)
    for _ in range(2):  # it may be about to start
        time.sleep(2)
        while "history" in stack.usage().by_process or _request(stack).exists():
            time.sleep(0.5)


@contextmanager
def counting_runs(stack: Penstock) -> Iterator[list[int]]:
    """How often the writer comes by itself: a list of one number, which is right at the end."""
    done, counted = threading.Event(), [0]

    def look() -> None:
        was_there = False
        while not done.wait(0.5):
            is_there = "history" in stack.usage().by_process
            counted[0] += is_there and not was_there
            was_there = is_there

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield counted
    finally:
        done.set()
        looking.join()


def _request(stack: Penstock) -> Path:
    return stack.folder / "data" / FLUSH_REQUEST


def _ask(stack: Penstock) -> None:
    _request(stack).touch()


if __name__ == "__main__":
    main()
