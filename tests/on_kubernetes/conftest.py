"""A real API server with penstock installed, and the embedded one beside it; each is started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.on_kubernetes.both_apis import Asked, embedded_api, start_webhook
from tools.cluster.kubernetes import RealApi, real_api


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealApi]:
    """kube-apiserver and etcd with what `penstock install` puts there, and the webhook."""
    with real_api(tmp_path_factory.mktemp("real")) as api:
        api.install()
        start_webhook(api)
        yield api


@pytest.fixture(scope="session")
def real(cluster: RealApi) -> Iterator[Asked]:
    """The real API."""
    asked = Asked(cluster.kubeconfig)
    yield asked
    asked.close()


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """The embedded API, with the settings of the installation."""
    with embedded_api(tmp_path_factory.mktemp("embedded"), broker_classes="Penstock") as kubeconfig:
        asked = Asked(kubeconfig)
        yield asked
        asked.close()
