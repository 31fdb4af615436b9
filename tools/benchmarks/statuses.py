"""What it costs to tell in the statuses of thousands of Triggers how their deliveries go.

    python -m tools.benchmarks.statuses [--routes 10000]

One stack with so many Triggers. What the control plane and the API server take is measured twice: while nothing
happens, and while a tenth of the Triggers get an event every few seconds, some of them for a subscriber that fails. No
event passes through these two processes, so what they take beyond their idle time is the price of the statuses, and of
the Kubernetes Events that tell of failures.

The look at every object that the controllers take from time to time (`resync_seconds`) is put off: it has nothing to do
with statuses, and with thousands of Triggers it would weigh on whichever of the two it met.

Statuses are counted afterwards, from the past that the API server keeps for watches, so that nothing watches meanwhile.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from typing import Any

from tools.benchmarks import loadgen, objects
from tools.benchmarks.objects import EVENTING, NAMESPACE, Api
from tools.benchmarks.stack import Penstock, Usage, build_loadgen, free_port

ROUTES = 10_000
BROKERS = 10
FAILING = 0.05
"""Of the Triggers that get events, how many have a subscriber that answers 500."""
SECONDS_BETWEEN_EVENTS = 5
"""How often each of them gets an event."""
IDLE_SECONDS = 30
WARM_UP_SECONDS = 30
"""Until what may be written at once after a quiet time has been used up."""
LOAD_SECONDS = 60
WRITERS = ("control", "apiserver")
"""The processes that write and store statuses."""
TRIGGERS, EVENTS = f"{EVENTING}/{NAMESPACE}/triggers", f"/api/v1/namespaces/{NAMESPACE}/events"


@dataclass(frozen=True)
class Share:
    """What processes took of one core over some time, in percent."""

    seconds: float
    percent: dict[str, float]

    @classmethod
    def between(cls, before: Usage, after: Usage, seconds: float) -> Share:
        """Of a stack that was looked at twice."""
        taken = {name: cpu - before.cpu_by_process.get(name, 0.0) for name, cpu in after.cpu_by_process.items()}
        return cls(seconds, {name: 100 * cpu / seconds for name, cpu in taken.items()})

    @property
    def writers(self) -> float:
        """What the processes that write and store statuses took."""
        return sum(self.percent.get(name, 0.0) for name in WRITERS)


def main() -> None:
    """Prints what was measured as JSON."""
    parser = argparse.ArgumentParser(prog="tools.benchmarks.statuses", description=__doc__)
    parser.add_argument("--routes", type=int, default=ROUTES, help="how many Triggers there are")
    arguments = parser.parse_args()
    if arguments.routes < BROKERS:
        parser.error(f"--routes must be at least {BROKERS}, one for each Broker")
    build_loadgen()
    print(json.dumps(measure(f"127.0.0.1:{free_port()}", arguments.routes), indent=2))


def measure(listen: str, count: int = ROUTES) -> dict[str, Any]:
    """The stack with its Triggers at rest, then with some of them at work."""
    stack = Penstock("--set", "resync_seconds=3600")
    try:
        api = Api(stack.kubeconfig)
        api.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
        routes = routes_by_broker(count, f"http://{listen}/s/")
        ready_seconds = prepare(api, routes)
        time.sleep(5)
        idle = share(stack, IDLE_SECONDS)
        busy = next(iter(routes))
        types = [route["attributes"]["type"] for route in routes[busy]]
        load = loadgen.start(
            stack.url(f"/{NAMESPACE}/{busy}"),
            listen,
            types=",".join(types),
            rate=max(1.0, len(types) / SECONDS_BETWEEN_EVENTS),
            subscribers=2,
            behave="1=fail",
            fanout=0,
            warmup=f"{WARM_UP_SECONDS}s",
            duration=f"{LOAD_SECONDS + 10}s",
        )
        time.sleep(WARM_UP_SECONDS)
        versions = {path: api.version(path) for path in (TRIGGERS, EVENTS)}
        working = share(stack, LOAD_SECONDS)
        written = {path: api.changes_since(path, version) for path, version in versions.items()}
        report = load.report()
        failing = sum(route["subscriber"].endswith("1") for route in routes[busy])
        return {
            "triggers": count,
            "ready_seconds": ready_seconds,
            "busy_triggers": len(types),
            "failing_triggers": failing,
            **figures(idle, working, written[TRIGGERS], written[EVENTS]),
            "accepted_per_second": report["accepted_per_second"],
            "deliveries": sum(report["received"]),
            "idle_by_process": idle.percent,
            "load_by_process": working.percent,
        }
    finally:
        stack.stop()


def routes_by_broker(count: int, subscriber: str) -> dict[str, list[dict[str, Any]]]:
    """Triggers by type, each with a type of its own, spread over the Brokers; some have the subscriber that fails."""
    every = round(1 / FAILING)
    return {
        f"statuses-{broker}": [
            {
                "name": f"t{number}",
                "attributes": {"type": f"bench.{number}"},
                "subscriber": f"{subscriber}{int(number % every == every - 1)}",
            }
            for number in range(count // BROKERS + (broker < count % BROKERS))
        ]
        for broker in range(BROKERS)
    }


def prepare(api: Api, routes: dict[str, list[dict[str, Any]]]) -> float:
    """Makes Brokers and Triggers; gives the seconds from the first Trigger to the last one that is Ready."""
    api.create([objects.broker(name) for name in routes])
    api.await_ready("brokers", set(routes))
    triggers = [objects.trigger(name, route) for name, some in routes.items() for route in some]
    began = time.monotonic()
    api.create(triggers)
    # A list of thousands is work for the API server that has to write their statuses meanwhile.
    api.await_ready("triggers", {trigger["metadata"]["name"] for trigger in triggers}, pause=3)
    return time.monotonic() - began


def share(stack: Penstock, seconds: float) -> Share:
    """What the stack takes from now on, for so long."""
    before, began = stack.usage(), time.monotonic()
    time.sleep(seconds)
    return Share.between(before, stack.usage(), time.monotonic() - began)


def figures(idle: Share, working: Share, statuses: int, events: int) -> dict[str, float]:
    """What statuses cost, in percent of a core, and how many there were."""
    return {
        "idle_percent_of_a_core": idle.writers,
        "load_percent_of_a_core": working.writers,
        "status_writing_percent_of_a_core": working.writers - idle.writers,
        "statuses_per_second": statuses / working.seconds,
        "events_per_second": events / working.seconds,
    }


if __name__ == "__main__":
    main()
