"""A Kafka of the dispatcher's own, and subscribers that end with their test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from penstock.settings import Settings
from tests.integration.dispatcher.dispatcher_stage import Stage, Subscribe, Subscriber
from tests.running import running_kafka, with_held_ports

if TYPE_CHECKING:
    from penstock.engine.jars.jar_cache import Jars


@pytest.fixture(scope="package")
def own_kafka(tmp_path_factory: pytest.TempPathFactory, jar_folders: Jars) -> Iterator[Settings]:
    """A Kafka that no other room writes to."""
    settings = with_held_ports(Settings(data_dir=tmp_path_factory.mktemp("dispatcher"), partitions=2))
    with running_kafka(settings, jar_folders):
        yield settings


@pytest.fixture(scope="package")
def stage(own_kafka: Settings) -> Iterator[Stage]:
    made = Stage(own_kafka)
    yield made
    made.close()


@pytest_asyncio.fixture
async def subscribe() -> AsyncIterator[Subscribe]:
    """Starts subscribers."""
    servers = []

    async def start(*arguments: Any, **options: Any) -> Subscriber:
        subscriber = Subscriber(*arguments, **options)
        servers.append(await subscriber.serve())
        return subscriber

    yield start
    for server in servers:
        server.close()
