"""The world of the conformance tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.world import Sinks, World, running_sinks
from tests.running import Stack


@pytest.fixture(scope="session")
def sinks() -> Iterator[Sinks]:
    """One server for all sinks."""
    with running_sinks() as server:
        yield server


@pytest.fixture(scope="module")
def world(stack: Stack, sinks: Sinks, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace for the tests of one file."""
    name = request.module.__name__.rpartition(".")[2].removeprefix("test_conformance_").replace("_", "-")
    world = World(stack, sinks, f"spec-{name}")
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.namespace, "namespace": ""}})
    yield world
    world.close()
