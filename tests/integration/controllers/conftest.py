"""One control plane for the tests of this folder, with its own Kafka: the routes topic must be nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.engine.jars.jar_cache import Jars
    from tests.integration.controllers.control_plane import Cluster, DataPlaneStandIn, Restartable


@pytest.fixture(scope="package")
def control_settings(tmp_path_factory: pytest.TempPathFactory, jar_folders: Jars) -> Iterator[Settings]:
    """Settings that reach a running Kafka and API server."""
    from tests.integration.controllers.control_plane import run_apiserver, running
    from tests.running import running_kafka, with_held_ports

    settings = with_held_ports(Settings(data_dir=tmp_path_factory.mktemp("control")))
    with running_kafka(settings, jar_folders), running(run_apiserver, settings):
        yield settings


@pytest.fixture(scope="package")
def data_plane(control_settings: Settings) -> Iterator[DataPlaneStandIn]:
    """Acknowledges what is published."""
    from tests.integration.controllers.control_plane import DataPlaneStandIn

    stand_in = DataPlaneStandIn(control_settings)
    yield stand_in
    stand_in.close()


@pytest.fixture(scope="package")
def controllers(control_settings: Settings, data_plane: DataPlaneStandIn) -> Iterator[Restartable]:
    """The controllers, running."""
    from tests.integration.controllers.control_plane import Restartable, run_controllers

    component = Restartable(run_controllers, control_settings)
    yield component
    component.stop()


@pytest.fixture
def cluster(control_settings: Settings, controllers: Restartable) -> Iterator[Cluster]:
    """The API as a user sees it, with controllers at work."""
    from tests.integration.controllers.control_plane import Cluster

    user = Cluster(control_settings)
    yield user
    user.close()
