"""Kafka dies under the router and comes back: routing goes on, and nothing that was accepted is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.router.service import RouterService
from penstock.settings import Settings
from tests.integration.router.router_stage import Stage, trigger, wait_for_version
from tests.running import running_kafka, with_held_ports
from tests.waiting import eventually

if TYPE_CHECKING:
    from penstock.engine.jars.jar_cache import Jars

pytestmark = pytest.mark.long


def test_the_router_outlives_kafka(
    tmp_path_factory: pytest.TempPathFactory, jar_folders: Jars, start_router: Callable[[Settings], RouterService]
) -> None:
    settings = with_held_ports(Settings(data_dir=tmp_path_factory.mktemp("away"), router_marker_seconds=0.5))
    with running_kafka(settings, jar_folders) as kafka:
        stage = Stage(settings)
        stage.publish(trigger("a", type="order"))
        router = start_router(settings)
        for number in range(100):
            stage.send(f"before-{number}")
        stage.producer.flush(60)
        kafka.kill()
        kafka.wait()
        eventually(lambda: router.status().get("waiting_for_kafka"), 120)
        assert router.failure() is None
    with running_kafka(settings, jar_folders):
        for number in range(100):
            stage.send(f"after-{number}")
        stage.producer.flush(60)
        expected = {f"{when}-{number}" for when in ("before", "after") for number in range(100)}
        eventually(lambda: expected <= set(stage.ids("a")), seconds=180)
        version = stage.publish(trigger("a", type="order"), trigger("b", stage.ends(), type="order"))
        wait_for_version(router, version, seconds=180)
        assert router.failure() is None
        router.stop()
        stage.close()
