"""The router with a real Kafka and a real Spark: routing, switching under load, going on after an end."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from penstock.contract import topics
from penstock.contract.routes import Endpoint, Route
from penstock.router.service import RouterService
from penstock.settings import Settings
from tests.integration.router.router_stage import Stage, newest_ack, steady_load, trigger, wait_for_version
from tests.waiting import eventually

StartRouter = Callable[[Settings], RouterService]


def with_subscriber(route: Route, url: str) -> Route:
    return Route(**{name: getattr(route, name) for name in route.__struct_fields__} | {"subscriber": Endpoint(url)})


def reached_all(stage: Stage, uid: str, idents: list[str]) -> bool:
    """Whether all these events were matched for a route."""
    return set(idents) <= set(stage.ids(uid))


def origins_rise(stage: Stage) -> bool:
    """Whether each generation wrote each partition in the order of the events."""
    written: dict[tuple[int, int], list[int]] = defaultdict(list)
    for found in stage.look():
        written[(found.generation, found.partition)].append(found.origin)
    return all(origins == sorted(set(origins)) for origins in written.values())


def test_events_are_routed_and_strange_records_are_counted(stage: Stage, start_router: StartRouter) -> None:
    version = stage.publish(trigger("orders", type="order"), trigger("everything"))
    router = start_router(stage.settings)
    stage.producer.produce(stage.topic(topics.EVENTS), value=b"junk")
    stage.send("first", "order")
    stage.send("second", "other")
    assert eventually(lambda: sorted(stage.ids("everything")) == ["first", "second"])
    assert stage.ids("orders") == ["first"]
    assert router.status()["version"] == version
    assert eventually(lambda: router.status().get("unreadable") == 1)
    assert eventually(lambda: router.status()["marker_transit_ms"] is not None)
    assert eventually(lambda: router.status()["lag"] == 0)


def test_a_change_that_is_not_about_routing_needs_no_new_query(stage: Stage, start_router: StartRouter) -> None:
    route = trigger("orders", stage.ends(), type="order")
    stage.publish(route)
    router = start_router(stage.settings)
    generation = router.status()["generation"]
    version = stage.publish(with_subscriber(route, "http://elsewhere"))
    wait_for_version(router, version)
    assert router.status()["generation"] == generation
    assert newest_ack(stage.settings, version).version == version


def test_switching_under_load_loses_nothing(stage: Stage, start_router: StartRouter) -> None:
    first = trigger("load-a", stage.ends(), type="load")
    stage.publish(first)
    router = start_router(stage.settings)
    with steady_load(stage, "load", pause=0.004) as sent:
        accepted_when_ready = {}
        routes = [first]
        for name in ("load-b", "load-c"):
            routes.append(trigger(name, stage.ends(), type="load"))
            version = stage.publish(*routes)
            wait_for_version(router, version)
            accepted_when_ready[name] = len(sent)
            time.sleep(0.3)
    eventually(lambda: set(sent) <= set(stage.ids("load-a")), 120)
    for name, accepted in accepted_when_ready.items():  # by the new query, which may be behind the old one
        eventually(partial(reached_all, stage, name, sent[accepted:]), 120)
    assert origins_rise(stage)
    assert router.failure() is None


def test_a_new_router_goes_on_where_the_last_one_stood(stage: Stage, start_router: StartRouter) -> None:
    stage.publish(trigger("again", stage.ends(), type="again"))
    router = start_router(stage.settings)
    for number in range(50):
        stage.send(f"before-{number}", "again")
    eventually(lambda: len(stage.ids("again")) == 50)
    router.stop()
    for number in range(50):
        stage.send(f"meanwhile-{number}", "again")
    stage.producer.flush(60)
    router = start_router(stage.settings)
    stage.send("after", "again")
    expected = Counter([*(f"{when}-{n}" for when in ("before", "meanwhile") for n in range(50)), "after"])
    # Partitions are routed by themselves, so the last event may come before some of the others.
    assert eventually(lambda: set(stage.ids("again")) >= set(expected))
    assert Counter(stage.ids("again")) == expected


def test_a_query_that_dies_is_started_again(stage: Stage, start_router: StartRouter, spark: SparkSession) -> None:
    stage.publish(trigger("reborn", stage.ends(), type="reborn"))
    router = start_router(stage.settings)
    generation = router.status()["generation"]
    for query in spark.streams.active:
        query.stop()
    stage.send("survivor", "reborn")
    assert eventually(lambda: stage.ids("reborn") == ["survivor"])
    assert router.status()["generation"] > generation
    assert router.failure() is None


def test_a_stopped_router_leaves_neither_query_nor_thread_nor_folder(
    stage: Stage, start_router: StartRouter, spark: SparkSession
) -> None:
    threads = set(threading.enumerate())
    router = start_router(stage.settings)
    began = time.monotonic()
    router.stop()
    assert time.monotonic() - began < 60
    assert not spark.streams.active
    eventually(lambda: set(threading.enumerate()) <= threads)
    assert not list((stage.settings.data_dir / "spark").glob("generation-*"))


def test_micro_batches_route_alike(stage: Stage, start_router: StartRouter) -> None:
    stage.publish(trigger("batched", stage.ends(), type="batched"))
    router = start_router(stage.settings.model_copy(update={"router_mode": "microbatch"}))
    stage.send("in-a-batch", "batched")
    assert eventually(lambda: stage.ids("batched") == ["in-a-batch"])
    assert router.failure() is None
