"""Topics of the router's own, and routers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.engine.topics import topic_setup
from penstock.kafka.clients import portable
from penstock.router.service import RouterService
from penstock.settings import Settings
from tests.integration.router.router_stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def own_topics(kafka: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Topics that no other tests write to."""
    folder = tmp_path_factory.mktemp("router")
    own = {"data_dir": folder, "topic_prefix": folder.name, "router_marker_seconds": 0.5}
    settings = portable(kafka).model_copy(update=own)
    topic_setup.ensure(settings)
    return settings


@pytest.fixture(scope="module")
def stage(own_topics: Settings) -> Iterator[Stage]:
    made = Stage(own_topics)
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
