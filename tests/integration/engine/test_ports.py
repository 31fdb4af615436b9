"""Ports: free ones for the asking, and a clear word about one that is taken."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from penstock.engine import ports
from penstock.runtime.errors import UserError
from penstock.settings import Settings


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_port_0_picks_free_ones_for_all_that_nobody_set(taken: int) -> None:
    [mine] = ports.free_ports(1)
    settings = ports.resolve(Settings(port=0, metrics_port=mine))
    numbers = [settings.port, settings.api_port, settings.kafka_port]
    assert settings.metrics_port == mine
    assert len({*numbers, mine, taken}) == 5
    assert not {8080, 8443, 19092} & set(numbers)


def test_a_port_in_use_is_named_with_who_needs_it_who_has_it_and_what_to_do(taken: int) -> None:
    with pytest.raises(UserError) as raised:
        ports.resolve(Settings(port=0, api_port=taken))
    assert f"Port {taken} is in use" in raised.value.what
    assert f"pid {os.getpid()}" in raised.value.what
    assert "the Kubernetes API needs it" in raised.value.what
    assert "--api-port NUMBER" in raised.value.remedy


def test_ports_of_what_is_not_started_do_not_matter(taken: int) -> None:
    settings = Settings(port=0, kafka="k:9092", kafka_port=taken, metrics=False, metrics_port=taken)
    assert ports.resolve(settings).kafka_port == taken
