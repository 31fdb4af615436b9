"""Where executors of a given cluster reach the driver: they connect to it, not it to them."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from penstock.engine.problem import Problem
from penstock.engine.spark_cluster.masters import Master
from penstock.settings import Settings


@dataclass(frozen=True)
class DriverAddress:
    """What the driver tells others, and what it listens on."""

    host: str
    bind: str


def find(settings: Settings, master: Master) -> DriverAddress:
    """The address of the settings, or else the one by which this machine reaches the master."""
    if settings.spark_driver_host is not None:
        return DriverAddress(settings.spark_driver_host, settings.spark_driver_bind or "0.0.0.0")  # noqa: S104
    host = _towards(*master.places[0]) if master.places else _own_name()
    return DriverAddress(host, settings.spark_driver_bind or host)


def _towards(host: str, port: int) -> str:
    """The address of this machine that packets to a host leave from. None is sent."""
    try:
        family, kind, proto, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, proto) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise Problem(
            f"This machine has no way to the Spark master at {host}:{port} ({error.strerror or error}).",
            "Look at spark_master, or name the address of this machine with spark_driver_host.",
        ) from None


def _own_name() -> str:
    return socket.getfqdn()
