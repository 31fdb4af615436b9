"""The master of an existing cluster: its kind, whether it is reachable, and how its executors reach this machine.

Spark reports an unreachable master only after a minute, and executors that cannot reach Kafka report nothing. So both
are checked before the start.
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
    """The master in `spark_master`."""

    url: str
    kind: Kind
    addresses: tuple[tuple[str, int], ...] = ()
    """Hosts and ports, at least one of which must be reachable."""


def parse(url: str) -> Master:
    """Parses the URL of a master. Raises UserError for an invalid one."""
    try:
        if url == "local" or url.startswith("local["):
            return Master(url, "local")
        if url == "yarn":
            return Master(url, "yarn")
        if url.startswith("spark://"):
            addresses = [_host_and_port(f"spark://{one}", STANDALONE_PORT) for one in url[len("spark://") :].split(",")]
            return Master(url, "standalone", tuple(addresses))
        if url.startswith("k8s://"):
            address = url[len("k8s://") :]
            secure = not address.startswith("http://")
            return Master(
                url,
                "kubernetes",
                (_host_and_port(address if "://" in address else f"https://{address}", 443 if secure else 80),),
            )
    except ValueError:
        pass
    raise UserError(
        f"spark_master is {url!r}, which is not a Spark master.",
        "Write spark://host:7077 for a standalone cluster, k8s://https://host:6443 for Kubernetes, or yarn; "
        "leave it empty to run Spark on this machine.",
    )


def _host_and_port(url: str, port: int) -> tuple[str, int]:
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError(url)
    return parts.hostname, parts.port or port


def _connect(address: tuple[str, int]) -> None:
    socket.create_connection(address, CONNECT_SECONDS).close()


def check_reachable(master: Master, connect: Callable[[tuple[str, int]], None] = _connect) -> None:
    """Raises UserError if no address of the master is reachable."""
    if master.kind == "yarn" and not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
        raise UserError(
            "spark_master is yarn, but HADOOP_CONF_DIR is not set.",
            "Set it to the folder with YARN's configuration.",
        )
    failures = []
    for host, port in master.addresses:
        try:
            connect((host, port))
            return
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    if failures:
        raise UserError(
            f"The Spark master {master.url} cannot be reached ({'; '.join(failures)}).",
            "Check spark_master: it must be the address that the master logs at its start, such as spark://host:7077.",
        )


def check_kafka_in_reach(settings: Settings, master: Master) -> None:
    """Raises UserError if executors on other machines would get a loopback address of Kafka."""
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
                f"kafka contains {address.strip()}, which on every executor of {master.url} is its own machine.",
                "Use addresses that every executor can reach, or leave spark_master empty.",
            )


def on_this_machine(master: Master) -> bool:
    """Whether the master runs on this machine, as in a test. Its executors may then run here too."""
    own = {address.address for found in psutil.net_if_addrs().values() for address in found}
    return bool(master.addresses) and all(
        is_loopback(host) or any(found in own for found in _resolve(host)) for host, _ in master.addresses
    )


def is_loopback(host: str) -> bool:
    """Whether a name or an address is a loopback address."""
    return host.endswith(".localhost") or hosts.is_loopback(host)


def _resolve(host: str) -> Iterator[str]:
    try:
        yield from {str(found[4][0]) for found in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)}
    except OSError:
        return


@dataclass(frozen=True)
class DriverAddress:
    """The address of the driver for executors, which connect to it, and the address it listens on."""

    host: str
    bind: str


def driver_address(settings: Settings, master: Master) -> DriverAddress:
    """The address in the settings, or the local address of this machine on the way to the master."""
    if settings.spark_driver_host is not None:
        return DriverAddress(settings.spark_driver_host, settings.spark_driver_bind or "0.0.0.0")  # noqa: S104
    host = _address_towards(*master.addresses[0]) if master.addresses else _own_name()
    return DriverAddress(host, settings.spark_driver_bind or host)


def _address_towards(host: str, port: int) -> str:
    """The local address for packets to a host, without sending one."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, proto) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise UserError(
            f"There is no route to the Spark master at {host}:{port} ({error.strerror or error}).",
            "Check spark_master, or set spark_driver_host to the address of this machine.",
        ) from None


def _own_name() -> str:
    return socket.getfqdn()
