"""What the history costs whom it runs beside: latency and rate while its writer rests and while it writes, in turn.

    python -m benchmarks.history_beside

One stack that keeps its history. While the writer rests there is no process of it, and `penstock dev` looks at the ends
of two topics now and then: so resting stands for a stack without a history.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from benchmarks import loadgen, objects, special
from benchmarks.objects import Api
from benchmarks.scenarios import one_of
from benchmarks.stack import Penstock, build_loadgen, free_port

PACED = {"rate": 1000, "warmup": "2s", "duration": "12s", "settle": "30s"}
FLAT_OUT = {"warmup": "2s", "duration": "8s", "settle": "60s"}


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
        for _ in range(rounds):
            for name, load in (("paced", PACED), ("flat_out", FLAT_OUT)):
                reports.setdefault(f"{name}_resting", []).append(loadgen.run(url, listen, **load))
                with writing(stack):
                    reports.setdefault(f"{name}_writing", []).append(loadgen.run(url, listen, **load))
                write_all(stack)
        return {"idle_writers": int("history" in idle["by_process"]), **figures(reports)}
    finally:
        stack.stop()


def figures(reports: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Medians, and the medians of the ratios of each round."""
    p99 = {name: [one["send_to_receive"]["p99_ms"] for one in reports[f"paced_{name}"]] for name in STATES}
    rate = {name: [one["delivered_per_second"] for one in reports[f"flat_out_{name}"]] for name in STATES}
    return {
        **{f"p99_ms_{name}": median(found) for name, found in p99.items()},
        "p99_ratio": median(w / r for w, r in zip(p99["writing"], p99["resting"], strict=True)),
        **{f"rate_{name}": median(found) for name, found in rate.items()},
        "rate_ratio": median(w / r for w, r in zip(rate["writing"], rate["resting"], strict=True)),
        "lost": sum(one["lost"] for found in reports.values() for one in found),
    }


STATES = ("resting", "writing")


def write_all(stack: Penstock) -> None:
    """Has everything written, and waits until the writer rests."""
    _ask(stack)
    for _ in range(2):  # it may be about to start
        time.sleep(2)
        while "history" in stack.usage().by_process or _request(stack).exists():
            time.sleep(0.5)


@contextmanager
def writing(stack: Penstock) -> Iterator[None]:
    """Has the writer write again and again."""
    done = threading.Event()

    def ask() -> None:
        while not done.wait(0.5):
            _ask(stack)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        done.set()
        asking.join()


def _request(stack: Penstock) -> Any:
    return stack.folder / "data" / "run" / "write-history"


def _ask(stack: Penstock) -> None:
    _request(stack).touch()


if __name__ == "__main__":
    main()
