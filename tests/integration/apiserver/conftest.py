"""One API server for all tests that leave it alive; each test works in its own namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.apiserver.api_process import Server, started
from tests.running import kubectl_program


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = started(tmp_path_factory.mktemp("api"))
    yield server
    server.stop()


@pytest.fixture
def namespace(server: Server, request: pytest.FixtureRequest) -> str:
    name = request.node.name.partition("[")[0].replace("_", "-").lower()[:60].strip("-")
    answer = server.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert answer.status == 201, answer.body
    return str(name)


@pytest.fixture
def kubectl(server: Server, namespace: str) -> Callable[..., str]:
    """kubectl in the test's own namespace."""
    kubectl_program()

    def run(*arguments: str, stdin: str | None = None, ok: bool = True) -> str:
        return server.kubectl("-n", namespace, *arguments, stdin=stdin, ok=ok)

    return run
