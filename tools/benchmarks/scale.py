"""`python -m tools.benchmarks.scale [--only 4x1,16x1] [--events N]`: what an event costs in processor time, by width.

Each configuration (partitions x dispatchers) is a fresh stack that is warmed up and then given a number of events in a
closed loop. Processor time is compared, not time on the clock: it says the same on a machine that has other work, and
it is what a larger installation has to buy. What a stack takes while nothing happens is measured before and taken off.

Results are kept in `.build/scale.json`, so that configurations can be measured one by one; the table of docs/scale.md
is made of all that there are.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.benchmarks import loadgen, objects
from tools.benchmarks.report import between_marks, machine
from tools.benchmarks.scenarios import one_of
from tools.benchmarks.stack import BUILD, Penstock, Usage, build_loadgen, free_port

RESULTS = BUILD / "scale.json"
PAGE = Path("docs/scale.md")
BEGIN, END = "<!-- scale: begin -->", "<!-- scale: end -->"
IDLE_SECONDS = 20
PARTS = {"ingress": "ingress", "kafka": "Kafka", "spark": "router (Spark)", "dispatcher": "dispatcher"}
"""Processes whose cost grows with events; the others are added up."""


@dataclass(frozen=True, order=True)
class Width:
    """How wide a stack is."""

    partitions: int
    dispatchers: int

    @classmethod
    def of(cls, text: str) -> Width:
        """From `4x1`."""
        partitions, _, dispatchers = text.partition("x")
        return cls(int(partitions), int(dispatchers))

    def __str__(self) -> str:
        return f"{self.partitions}x{self.dispatchers}"


WIDTHS = [*(Width(partitions, 1) for partitions in (1, 2, 4, 8, 16)), *(Width(4, n) for n in (2, 3, 4))]


@dataclass(frozen=True)
class Cost:
    """What one configuration took."""

    events: int
    seconds: float
    lost: int
    duplicates: int
    idle_percent: float
    rss_mib: float
    per_million: dict[str, float]
    """CPU seconds for a million events by process, without what the process takes when idle."""


def main() -> None:
    """Measures what was asked for and writes the table."""
    parser = argparse.ArgumentParser(prog="tools.benchmarks.scale", description=__doc__)
    parser.add_argument("--only", help="configurations, such as 4x1,16x1 (partitions x dispatchers)")
    parser.add_argument(
        "--events", type=int, default=100_000, help="events to measure, after a fifth of them to warm up"
    )
    parser.add_argument("--write", action="store_true", help="measure nothing; write the table of what was measured")
    arguments = parser.parse_args()
    build_loadgen()
    widths = [Width.of(text) for text in arguments.only.split(",")] if arguments.only else WIDTHS
    for width in [] if arguments.write else widths:
        cost = measure(width, arguments.events)
        keep(width, cost)
        print(f"{width}: {json.dumps(asdict(cost))}", file=sys.stderr, flush=True)
    between_marks(PAGE, BEGIN, END, "\n".join(table(kept())))


def measure(width: Width, events: int) -> Cost:
    """A stack of this width, from its start to its end."""
    stack = Penstock("--partitions", str(width.partitions), "--set", f"dispatchers={width.dispatchers}")
    try:
        listen = f"127.0.0.1:{free_port()}"
        api = objects.Api(stack.kubeconfig)
        api.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": objects.NAMESPACE}}])
        triggers = [objects.trigger("scale", route) for route in one_of(1)(f"http://{listen}/s/")]
        api.create([objects.broker("scale")])
        api.await_ready("brokers", {"scale"})
        api.create(triggers)
        api.await_ready("triggers", {trigger["metadata"]["name"] for trigger in triggers})
        send(stack, listen, max(1, events // 5))
        idle = rates(stack, IDLE_SECONDS)
        before, began = stack.usage(), time.monotonic()
        report = send(stack, listen, events)
        seconds, after = time.monotonic() - began, stack.usage()
        return Cost(
            events=report["accepted"],
            seconds=seconds,
            lost=report["lost"],
            duplicates=report["duplicates"],
            idle_percent=100 * sum(idle.values()),
            rss_mib=after.rss_mib,
            per_million=per_million(before, after, idle, seconds, report["accepted"]),
        )
    except BaseException:
        print(stack.output()[-3000:], file=sys.stderr)
        raise
    finally:
        stack.stop()


def send(stack: Penstock, listen: str, events: int) -> dict[str, int]:
    """Sends so many events and waits for the last delivery."""
    return loadgen.run(
        stack.url(f"/{objects.NAMESPACE}/scale"), listen, count=events, warmup="0s", duration="600s", settle="300s"
    )


def rates(stack: Penstock, seconds: float) -> dict[str, float]:
    """CPU seconds per second, by process, of a stack that has nothing to do."""
    before, began = stack.usage(), time.monotonic()
    time.sleep(seconds)
    after, passed = stack.usage(), time.monotonic() - began
    return {name: (value - before.cpu_by_process.get(name, 0)) / passed for name, value in after.cpu_by_process.items()}


def per_million(before: Usage, after: Usage, idle: dict[str, float], seconds: float, events: int) -> dict[str, float]:
    """What each process took for a million events, beyond what it would have taken for none."""
    taken = {name: value - before.cpu_by_process.get(name, 0) for name, value in after.cpu_by_process.items()}
    return {name: 1e6 * max(0, value - seconds * idle.get(name, 0)) / events for name, value in taken.items()}


def keep(width: Width, cost: Cost) -> None:
    """Adds to what was measured before."""
    RESULTS.write_text(json.dumps({**kept(), str(width): asdict(cost)}, indent=2))


def kept() -> dict[str, dict[str, object]]:
    """What was measured so far, by configuration."""
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def table(results: dict[str, dict[str, object]]) -> list[str]:
    """The table of docs/scale.md."""
    costs = {Width.of(name): Cost(**values) for name, values in results.items()}  # type: ignore[arg-type]
    return [
        *machine({"date": time.strftime("%Y-%m-%d")}),
        "",
        f"| partitions | dispatchers | {' | '.join(PARTS.values())} | all | idle, % of a core | memory, MiB | lost |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(row(width, costs[width]) for width in WIDTHS if width in costs),
    ]


def row(width: Width, cost: Cost) -> str:
    """One configuration."""
    parts = [f"{cost.per_million.get(name, 0):,.0f}" for name in PARTS]
    cells = [
        str(width.partitions),
        str(width.dispatchers),
        *parts,
        f"{sum(cost.per_million.values()):,.0f}",
        f"{cost.idle_percent:.0f}",
        f"{cost.rss_mib:,.0f}",
        str(cost.lost),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
