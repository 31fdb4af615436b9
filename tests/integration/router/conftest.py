"""A Kafka of the router's own, and routers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from router_stage import Stage

from penstock.router.service import RouterService
from penstock.settings import Settings
from running import running_kafka, with_held_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.engine.jars import Jars


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory, jar_folders: Jars) -> Iterator[Settings]:
    """A Kafka that no other room writes to."""
    settings = with_held_ports(Settings(data_dir=tmp_path_factory.mktemp("router"), router_marker_seconds=0.5))
    with running_kafka(settings, jar_folders):
        yield settings


@pytest.fixture(scope="module")
def stage(own_kafka: Settings) -> Iterator[Stage]:
    made = Stage(own_kafka)
    yield made
    made.close()


@pytest.fixture
def start_router(spark: SparkSession) -> Iterator[Callable[[Settings], RouterService]]:
    """Starts routers that end with the test. One that hangs would end the process, which here is that of the tests."""
    started: list[RouterService] = []
    hung: list[RouterService] = []

    def start(settings: Settings) -> RouterService:
        service = RouterService(spark, settings, end_process=lambda: hung.append(service))
        started.append(service)
        service.start()
        service.wait_ready(180)
        return service

    yield start
    for service in started:
        service.stop()
    assert not hung, f"a router hung: {[service.failure() for service in hung]}"
