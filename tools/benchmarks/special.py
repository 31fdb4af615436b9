"""Scenarios that are more than one load against one set of routes."""

from __future__ import annotations

import threading
import time
from statistics import median
from typing import Any

from tools.benchmarks import loadgen, objects
from tools.benchmarks.objects import Api
from tools.benchmarks.scenarios import FIXED, all_of, one_of
from tools.benchmarks.stack import Penstock

Figures = dict[str, Any]


def dead_subscriber(stack: Penstock, api: Api, listen: str, pairs: int = 3) -> Figures:
    """Nine healthy subscribers alone, then with a tenth that refuses connections, flat out; several times in turn."""
    healthy = all_of(9)(f"http://{listen}/s/")
    dead = {"name": "dead", "attributes": {"type": "bench"}, "subscriber": "http://127.0.0.1:9/"}
    load = {**FIXED, "subscribers": 9, "fanout": 9}
    reports: dict[str, list[Figures]] = {"nine": [], "nine-and-dead": []}
    for _ in range(pairs):
        for name, routes in (("nine", healthy), ("nine-and-dead", [*healthy, dead])):
            prepare(api, name, routes)
            reports[name].append(loadgen.run(stack.url(f"/bench/{name}"), listen, **load))
            _remove(api, name, routes)
    alone, beside = ([report["delivered_per_second"] for report in reports[name]] for name in reports)
    return {
        "alone": median(alone),
        "beside_dead": median(beside),
        "ratio": median(with_it / without for with_it, without in zip(beside, alone, strict=True)),
        "lost": sum(report["lost"] for report in reports["nine-and-dead"]),
    }


def backlog(stack: Penstock, api: Api, listen: str, count: int = 500_000) -> Figures:
    """Events pile up behind a paused Trigger, which then resumes."""
    routes = one_of(1)(f"http://{listen}/s/")
    prepare(api, "backlog", routes, annotations={"penstock.dev/paused": "true"})
    before = stack.usage().rss_mib
    load = loadgen.start(
        stack.url("/bench/backlog"), listen, batch=100, connections=8, count=count, warmup="0s", duration="120s",
        settle="400s", payload=256,
    )  # fmt: skip
    time.sleep(5)
    while _accepted(stack) < count:
        time.sleep(0.5)
    piled, began = stack.usage().rss_mib, time.monotonic()
    api.annotate(objects.trigger("backlog", routes[0]), {"penstock.dev/paused": None})
    report = load.report()
    seconds = time.monotonic() - began
    _remove(api, "backlog", routes)
    return {
        "events": report["delivered"],
        "drained_per_second": report["delivered"] / seconds,
        "lost": report["lost"],
        "duplicates": report["duplicates"],
        "rss_before_mib": before,
        "rss_piled_mib": piled,
    }


def _accepted(stack: Penstock) -> int:
    """Events the ingress accepted for the Broker `backlog`, by its own metrics."""
    import urllib.request

    url = f"http://127.0.0.1:{stack.settings['metrics_port']}/metrics"
    with urllib.request.urlopen(url, timeout=10) as response:
        lines = response.read().decode().splitlines()
    accepted = [line for line in lines if line.startswith("penstock_events_accepted_total") and "backlog" in line]
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in accepted))


def route_changes(stack: Penstock, api: Api, listen: str) -> Figures:
    """A Trigger is created every five seconds under 500 events a second."""
    routes = one_of(1)(f"http://{listen}/s/")
    prepare(api, "changing", routes)
    done = threading.Event()
    extras: list[Figures] = []

    def change() -> None:
        while not done.wait(5):
            route = {"name": f"x{len(extras)}", "attributes": {"type": "no"}, "subscriber": f"http://{listen}/s/0"}
            extras.append(objects.trigger("changing", route))
            api.create(extras[-1:])

    changer = threading.Thread(target=change)
    load = loadgen.start(stack.url("/bench/changing"), listen, rate=500, warmup="3s", duration="32s")
    changer.start()
    report = load.report()
    done.set()
    changer.join()
    api.delete(extras)
    _remove(api, "changing", routes)
    return {
        "changes": len(extras),
        "worst_ms": report["send_to_receive"]["max_ms"],
        "p99_ms": report["send_to_receive"]["p99_ms"],
        "lost": report["lost"],
        "duplicates": report["duplicates"],
    }


def first_event(stack: Penstock, api: Api, listen: str) -> Figures:
    """The first event that a fresh stack ever routes, from send to receive."""
    routes = one_of(1)(f"http://{listen}/s/")
    prepare(api, "first", routes)
    report = loadgen.run(
        stack.url("/bench/first"), listen, connections=1, count=1, warmup="0s", duration="2s", settle="20s"
    )
    _remove(api, "first", routes)
    return {"send_to_receive_ms": report["send_to_receive"]["max_ms"], "lost": report["lost"]}


def warm_up(stack: Penstock, api: Api, listen: str, seconds: float = 60) -> Figures:
    """A minute flat out, so that what follows shows compiled code, as in a stack that has run for a while."""
    routes = one_of(1)(f"http://{listen}/s/")
    prepare(api, "warm-up", routes)
    report = loadgen.run(stack.url("/bench/warm-up"), listen, warmup="0s", duration=f"{seconds}s")
    _remove(api, "warm-up", routes)
    return {"delivered_per_second": report["delivered_per_second"], "lost": report["lost"]}


def idle(stack: Penstock, seconds: float = 30) -> Figures:
    """Nothing happens: what does it cost?"""
    time.sleep(5)
    before = stack.usage()
    time.sleep(seconds)
    after = stack.usage()
    return {
        "cpu_percent_of_a_core": 100 * (after.cpu_seconds - before.cpu_seconds) / seconds,
        "rss_mib": after.rss_mib,
        "by_process": after.by_process,
    }


def apply_many(api: Api, listen: str, count: int = 1000) -> Figures:
    """Triggers created at once: until the last one is Ready."""
    routes = one_of(count)(f"http://{listen}/s/")
    api.create([objects.broker("many")])
    api.await_ready("brokers", {"many"})
    triggers = [objects.trigger("many", route) for route in routes]
    began = time.monotonic()
    api.create(triggers)
    created = time.monotonic() - began
    api.await_ready("triggers", {t["metadata"]["name"] for t in triggers})
    ready = time.monotonic() - began
    _remove(api, "many", routes)
    return {"triggers": count, "created_seconds": created, "ready_seconds": ready}


def soak(stack: Penstock, api: Api, listen: str, minutes: float = 10) -> Figures:
    """1,000 events a second for minutes: does memory grow after the first one?"""
    routes = one_of(1)(f"http://{listen}/s/")
    prepare(api, "soak", routes)
    load = loadgen.start(
        stack.url("/bench/soak"), listen, rate=1000, warmup="5s", duration=f"{int(minutes * 60)}s", settle="60s"
    )
    samples = []
    for _ in range(int(minutes * 4)):
        time.sleep(15)
        samples.append(stack.usage())
    report = load.report()
    _remove(api, "soak", routes)
    first, middle_one, last = samples[min(3, len(samples) - 1)], samples[len(samples) // 2], samples[-1]
    return {
        "rss_after_first_minute_mib": first.rss_mib,
        "rss_half_way_mib": middle_one.rss_mib,
        "rss_at_the_end_mib": last.rss_mib,
        "rss_samples_mib": [round(sample.rss_mib) for sample in samples],
        "grown_mib": {name: round(mib - first.by_process.get(name, 0.0), 1) for name, mib in last.by_process.items()},
        "p99_ms": report["send_to_receive"]["p99_ms"],
        "lost": report["lost"],
    }


def prepare(api: Api, name: str, routes: list[Figures], *, namespace: str = objects.NAMESPACE, **metadata: Any) -> None:
    """Makes a Broker with these routes and waits until they serve."""
    api.create([objects.broker(name)], namespace)
    api.await_ready("brokers", {name}, namespace=namespace)
    triggers = [objects.trigger(name, route, **metadata) for route in routes]
    api.create(triggers, namespace)
    api.await_ready("triggers", {t["metadata"]["name"] for t in triggers}, namespace=namespace)


def _remove(api: Api, name: str, routes: list[Figures]) -> None:
    api.delete([objects.trigger(name, route) for route in routes])
    api.delete([objects.broker(name)])
