"""`python -m tools.benchmarks [--scenario NAME] [--peer]`: runs scenarios and writes docs/benchmarks.md."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tools.benchmarks import (
    backtest,
    history,
    history_beside,
    history_writer,
    loadgen,
    objects,
    secured,
    special,
    statuses,
)
from tools.benchmarks.loadgen import middle
from tools.benchmarks.report import write
from tools.benchmarks.scenarios import SCENARIOS, Scenario
from tools.benchmarks.stack import Knative, Penstock, build_knative, build_loadgen, free_port

RESULTS = Path(__file__).parent / ".build" / "results.json"


def main() -> None:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(prog="tools.benchmarks", description=__doc__)
    parser.add_argument(
        "--scenario",
        help="run only these, separated by commas (see tools/benchmarks/scenarios.py, special.py and AFTERWARDS here)",
    )
    parser.add_argument("--peer", action="store_true", help="also measure upstream's in-memory Broker in the same run")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md although only some were run")
    parser.add_argument("--no-write", action="store_true", help="print only; leave docs/benchmarks.md as it is")
    arguments = parser.parse_args()
    only = set(arguments.scenario.split(",")) if arguments.scenario else None
    build_loadgen()
    results: dict[str, Any] = {"penstock": {}, "knative": {}, "date": time.strftime("%Y-%m-%d")}
    if arguments.peer:
        say("building upstream's data path (some minutes the first time)")
        problem = build_knative()
        if problem:
            say(f"upstream cannot be built here, going on without it: {problem}")
            arguments.peer = False
    listen = f"127.0.0.1:{free_port()}"
    if only is None or only - AFTERWARDS.keys():
        measure_penstock(results["penstock"], only, listen)
    if arguments.peer:
        measure_knative(results["knative"], only, listen)
    measure_afterwards(results["penstock"], only, listen)
    RESULTS.write_text(json.dumps(results, indent=2))
    printed_only = arguments.no_write or (only is not None and not arguments.write)
    write(results, None if printed_only else Path("docs/benchmarks.md"))


def measure_penstock(results: dict[str, Any], only: set[str] | None, listen: str) -> None:
    """All scenarios against one fresh stack."""
    stack = Penstock()
    try:
        api = objects.Api(stack.kubeconfig)
        api.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": objects.NAMESPACE}}])
        results["start"] = {"seconds": stack.start_seconds}
        say(f"penstock is up after {stack.start_seconds:.1f} s")
        steps: dict[str, Callable[[], dict[str, Any]]] = {
            "first-event": lambda: special.first_event(stack, api, listen),
            "idle": lambda: special.idle(stack),
            "warm-up": lambda: special.warm_up(stack, api, listen),
            **{s.name: partial(penstock_scenario, stack, api, s, listen) for s in SCENARIOS[1:-3]},
            "dead-subscriber": lambda: special.dead_subscriber(stack, api, listen),
            "route-changes": lambda: special.route_changes(stack, api, listen),
            "backlog": lambda: special.backlog(stack, api, listen),
            "apply-1000": lambda: special.apply_many(api, listen),
            **{s.name: partial(penstock_scenario, stack, api, s, listen) for s in SCENARIOS[-3:]},
            # What is compared most comes last, right before upstream's turn: a virtual machine's speed changes within
            # minutes.
            SCENARIOS[0].name: partial(penstock_scenario, stack, api, SCENARIOS[0], listen),
        }
        if only == {"soak"}:
            steps = {"soak": lambda: special.soak(stack, api, listen)}
        for name, step in steps.items():
            if only is None or name in only or name == "warm-up":
                results[name] = step()
                say(f"{name}: {json.dumps(brief(results[name]))}")
    except BaseException:
        say(stack.output()[-3000:])
        raise
    finally:
        results["stop"] = {"seconds": stack.stop()}


AFTERWARDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "history": lambda listen: history.alone(),
    "history-writer": lambda listen: history_writer.alone(),
    "history-beside": history_beside.measure,
    "secured": secured.measure,
    "backtest": lambda listen: backtest.rates(),
    "status-10000": statuses.measure,
}
"""What has a stack of its own, or none: measured after the other has ended, so that nothing runs beside it."""


def measure_afterwards(results: dict[str, Any], only: set[str] | None, listen: str) -> None:
    """What is not measured on the stack of the scenarios."""
    for name, step in AFTERWARDS.items():
        if only is None or name in only:
            results[name] = step(listen)
            say(f"{name}: {json.dumps(results[name])}")


def penstock_scenario(stack: Penstock, api: objects.Api, scenario: Scenario, listen: str) -> dict[str, Any]:
    """Creates the scenario's objects, runs its load, removes them."""
    routes = scenario.routes(f"http://{listen}/s/")
    if scenario.channel:
        hub, plural, path = objects.channel(scenario.name), "channels", f"/channels/bench/{scenario.name}"
        spokes, spoke_plural = [objects.subscription(scenario.name, r) for r in routes], "subscriptions"
    else:
        hub, plural, path = objects.broker(scenario.name), "brokers", f"/bench/{scenario.name}"
        spokes, spoke_plural = [objects.trigger(scenario.name, r) for r in routes], "triggers"
    api.create([hub])
    api.await_ready(plural, {scenario.name})
    api.create(spokes)
    api.await_ready(spoke_plural, {s["metadata"]["name"] for s in spokes})
    reports = []
    for _ in range(scenario.runs):
        before = stack.usage()
        report = loadgen.run(stack.url(path), listen, **scenario.load)
        after = stack.usage()
        report["cpu_seconds"] = after.cpu_seconds - before.cpu_seconds
        report["rss_mib"] = after.rss_mib
        report["cpu_us_per_event"] = {
            name: 1e6 * (seconds - before.cpu_by_process.get(name, 0)) / max(report["accepted"], 1)
            for name, seconds in after.cpu_by_process.items()
        }
        reports.append(report)
    api.delete(spokes)
    api.delete([hub])
    return middle(reports)


def measure_knative(results: dict[str, Any], only: set[str] | None, listen: str) -> None:
    """The scenarios that upstream can run, each against fresh processes."""
    for scenario in SCENARIOS:
        if not scenario.peer or (only is not None and scenario.name not in only):
            continue
        try:
            peer = Knative(scenario.routes(f"http://{listen}/s/"))
            try:
                reports = []
                for _ in range(scenario.runs):
                    report = loadgen.run(peer.url, listen, **{**scenario.load, "settle": "5s"})
                    report["rss_mib"] = peer.usage().rss_mib
                    reports.append(report)
                results[scenario.name] = middle(reports)
            finally:
                peer.stop()
        except RuntimeError as problem:
            results[scenario.name] = {"problem": str(problem)}
        say(f"upstream {scenario.name}: {json.dumps(brief(results[scenario.name]))}")


def brief(figures: dict[str, Any]) -> dict[str, Any]:
    """What is worth a line on the terminal."""
    wanted: tuple[str, ...] = (
        "accepted_per_second",
        "delivered_per_second",
        "send_to_receive.p50_ms",
        "send_to_receive.p99_ms",
        "lost",
        "duplicates",
    )
    wanted += tuple(key for key in figures if key.startswith("cpu_us_per_event"))
    chosen = {key: figures[key] for key in wanted if key in figures} if "accepted" in figures else figures
    return {key: round(value, 1) if isinstance(value, float) else value for key, value in chosen.items()}


def say(text: str) -> None:
    """Progress, on the terminal."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
