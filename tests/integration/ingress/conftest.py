"""One Kafka with two targets, and one ingress on it, for the tests that disturb neither."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.jars import jar_cache
from penstock.settings import Settings
from tests.integration.ingress.ingress_processes import IngressProcess, first_snapshot, ingress_process, publish
from tests.running import running_kafka, with_held_ports


@pytest.fixture(scope="package")
def ingress_kafka(tmp_path_factory: pytest.TempPathFactory, jar_folders: jar_cache.Jars) -> Iterator[Settings]:
    """Its own Kafka: the snapshot in it belongs to these tests. The value is the settings that reach it."""
    settings = with_held_ports(Settings(data_dir=tmp_path_factory.mktemp("ingress"), store_timeout_seconds=20))
    with running_kafka(settings, jar_folders):
        publish(settings, *first_snapshot())
        yield settings


@pytest.fixture(scope="package")
def metrics_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the processes' metrics are."""
    return tmp_path_factory.mktemp("metrics")


@pytest.fixture(scope="package")
def ingress(ingress_kafka: Settings, metrics_folder: Path) -> Iterator[IngressProcess]:
    """One ingress."""
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(metrics_folder)}
    with ingress_process(ingress_kafka, ingress_kafka.data_dir, environment) as running:
        yield running
