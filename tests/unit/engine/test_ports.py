"""Ports that are free, and not promised to another part of the same stack."""

from __future__ import annotations

import pytest

from penstock.engine import ports
from penstock.settings import Settings


def test_a_port_that_is_promised_to_another_part_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(port=5001, api_port=5002, kafka_port=5003, metrics_port=5004)
    given = [5003, 5001, 5002, 5004, 5005]
    monkeypatch.setattr(ports, "free_ports", lambda count: given[:count])
    assert ports.free_port_beside(settings) == 5005


def test_free_ports_differ() -> None:
    assert len(set(ports.free_ports(20))) == 20
