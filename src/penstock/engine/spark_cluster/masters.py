"""The master of a given cluster: what kind it is, whether it answers, and what of this machine its executors can reach.

A Spark that cannot reach its master says so after a minute and in many words, and executors that cannot reach Kafka
never say it at all. So both are looked at before anything starts.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import psutil

from penstock.runtime import hosts
from penstock.runtime.errors import UserError
from penstock.settings import Settings

CONNECT_SECONDS = 5.0
STANDALONE_PORT = 7077

Kind = Literal["local", "standalone", "kubernetes", "yarn"]


@dataclass(frozen=True)
class Master:
    """A master as `spark_master` names it."""

    url: str
    kind: Kind
    places: tuple[tuple[str, int], ...] = ()
    """Hosts and ports, of which one at least must answer."""


def parse(url: str) -> Master:
    """The master behind a URL. Raises UserError for one that Spark would not understand."""
    try:
        if url == "local" or url.startswith("local["):
            return Master(url, "local")
        if url == "yarn":
            return Master(url, "yarn")
        if url.startswith("spark://"):
            places = [_place(f"spark://{one}", STANDALONE_PORT) for one in url[len("spark://") :].split(",")]
            return Master(url, "standalone", tuple(places))
        if url.startswith("k8s://"):
            address = url[len("k8s://") :]
            secure = not address.startswith("http://")
            return Master(
                url,
                "kubernetes",
                (_place(address if "://" in address else f"https://{address}", 443 if secure else 80),),
            )
    except ValueError:
        pass
    raise UserError(
        f"Invalid spark_master {url!r}.",
        "Write spark://host:7077 for a standalone cluster, k8s://https://host:6443 for Kubernetes, or yarn; "
        "leave it empty to run Spark on this machine.",
    )


def _place(url: str, port: int) -> tuple[str, int]:
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError(url)
    return parts.hostname, parts.port or port


def _knock(place: tuple[str, int]) -> None:
    socket.create_connection(place, CONNECT_SECONDS).close()


def check_reachable(master: Master, knock: Callable[[tuple[str, int]], None] = _knock) -> None:
    """Raises UserError where nobody answers at the master's address."""
    if master.kind == "yarn" and not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
        raise UserError(
            "spark_master is yarn, but HADOOP_CONF_DIR is not set.",
            "Set it to the folder of YARN's configuration.",
        )
    failures = []
    for host, port in master.places:
        try:
            knock((host, port))
            return
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    if failures:
        raise UserError(
            f"The Spark master {master.url} cannot be reached ({'; '.join(failures)}).",
            "Check spark_master: use the address that the master printed at its start, such as spark://host:7077.",
        )


def check_kafka_in_reach(settings: Settings, master: Master) -> None:
    """Raises UserError where executors on other machines would be told to reach Kafka at an address of their own."""
    if on_this_machine(master):
        return
    if settings.kafka is None:
        raise UserError(
            f"The embedded Kafka listens on 127.0.0.1, where executors of {master.url} cannot reach it.",
            "Set --kafka to a Kafka that every executor can reach, or leave spark_master empty.",
        )
    for address in settings.kafka.split(","):
        host = urlsplit(f"kafka://{address.strip()}").hostname or ""
        if is_loopback(host):
            raise UserError(
                f"kafka contains {address.strip()}, which for an executor of {master.url} is its own machine.",
                "Use addresses that every executor can reach, or leave spark_master empty.",
            )


def on_this_machine(master: Master) -> bool:
    """Whether the master runs here, as it does where somebody tries a cluster out. Its executors then may do so too."""
    own = {address.address for found in psutil.net_if_addrs().values() for address in found}
    return bool(master.places) and all(
        is_loopback(host) or any(found in own for found in _addresses(host)) for host, _ in master.places
    )


def is_loopback(host: str) -> bool:
    """Whether a name or an address means the machine that uses it."""
    return host.endswith(".localhost") or hosts.is_loopback(host)


def _addresses(host: str) -> Iterator[str]:
    try:
        yield from {str(found[4][0]) for found in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)}
    except OSError:
        return


# Where executors of a given cluster reach the driver: they connect to it, not it to them.


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
        raise UserError(
            f"This machine has no route to the Spark master at {host}:{port} ({error.strerror or error}).",
            "Check spark_master, or set spark_driver_host to the address of this machine.",
        ) from None


def _own_name() -> str:
    return socket.getfqdn()
