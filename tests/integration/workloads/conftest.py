"""The node that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pod_cluster import Cluster

from penstock.settings import Settings
from running import with_held_ports


@pytest.fixture(scope="module")
def cluster(kafka: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data_dir: Path = tmp_path_factory.mktemp("node")
    images = {
        "test/shell*": [],
        "test/web*": ["python3", "-u", "-m", "http.server", "--bind", "$(POD_IP)", "$(PORT)"],
        "test/nothing": ["no-such-program"],
    }
    settings = with_held_ports(Settings(data_dir=data_dir, kafka=kafka.bootstrap, drain_seconds=1, images=images))
    cluster = Cluster(settings)
    yield cluster
    cluster.close()
