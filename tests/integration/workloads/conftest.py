"""The node that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.kafka.clients import portable
from penstock.settings import Settings
from tests.integration.workloads.pod_cluster import Cluster
from tests.running import with_held_ports


@pytest.fixture(scope="module")
def cluster(kafka: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data_dir: Path = tmp_path_factory.mktemp("node")
    images: dict[str, object] = {
        "test/shell*": [],
        "test/web*": ["python3", "-u", "-m", "http.server", "--bind", "$(POD_IP)", "$(PORT)"],
        "test/nothing": ["no-such-program"],
        "test/python": {"command": ["python3"], "namespaces": ["default"], "allow_env": ["PYTHONSTARTUP"]},
    }
    own = {"data_dir": data_dir, "drain_seconds": 1, "images": Settings.model_validate({"images": images}).images}
    settings = with_held_ports(portable(kafka).model_copy(update=own))
    cluster = Cluster(settings)
    yield cluster
    cluster.close()
