"""The ports of a stack: checks that they are free, and picks free ones for those that are 0."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

import psutil

from penstock.runtime.errors import UserError
from penstock.settings import Settings


@dataclass(frozen=True)
class Port:
    """A port of the stack."""

    field: str
    """The name of the setting."""
    needed_by: str

    @property
    def flag(self) -> str:
        """The command line flag of the setting."""
        return "--" + self.field.replace("_", "-")


PORTS = (
    Port("port", "the ingress"),
    Port("tls_port", "the ingress for HTTPS"),
    Port("api_port", "the Kubernetes API"),
    Port("kafka_port", "the embedded Kafka"),
    Port("metrics_port", "the metrics endpoint"),
    Port("console_port", "the console"),
)


def needed(settings: Settings) -> list[Port]:
    """The ports this stack will listen on."""
    unused = set()
    if settings.kafka is not None:
        unused.add("kafka_port")
    if settings.kubeconfig is not None:
        unused.add("api_port")
    if not settings.metrics:
        unused.add("metrics_port")
    if not settings.console:
        unused.add("console_port")
    return [port for port in PORTS if port.field not in unused]


def resolve(settings: Settings) -> Settings:
    """The settings with a free number for every port that is 0. Raises UserError for a port that is in use.

    With `port` 0 every port that is not set explicitly is 0 too, which is meant for a second stack on the machine.
    """
    numbers = {port.field: int(getattr(settings, port.field)) for port in needed(settings)}
    if settings.port == 0:
        numbers |= {field: 0 for field in numbers if field not in settings.model_fields_set}
    for port in needed(settings):
        if numbers[port.field]:
            check_free(settings.host, numbers[port.field], port)
    random_fields = [field for field, number in numbers.items() if number == 0]
    return settings.model_copy(update=numbers | dict(zip(random_fields, free_ports(len(random_fields)), strict=True)))


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Distinct free ports. All sockets stay bound until the last one is found."""
    held = [socket.socket() for _ in range(count)]
    try:
        for holder in held:
            holder.bind((host, 0))
        return [int(holder.getsockname()[1]) for holder in held]
    finally:
        for holder in held:
            holder.close()


def free_port_beside(settings: Settings) -> int:
    """A free port that is not one of the stack's own."""
    own = {int(getattr(settings, port.field)) for port in needed(settings)}
    return next(number for number in free_ports(len(own) + 1) if number not in own)


def check_free(host: str, number: int, port: Port) -> None:
    """Raises UserError if the port is not free."""
    remedy = f"Choose another with {port.flag} NUMBER, or --port 0 for free ones."
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise UserError(
                    f"Port {number} is in use{_owner(number)}; {port.needed_by} needs it.", remedy
                ) from None
            if error.errno in (errno.EACCES, errno.EPERM):
                raise UserError(
                    f"No permission to listen on port {number}, which {port.needed_by} needs.", remedy
                ) from None
            raise UserError(
                f"{port.needed_by} cannot listen on {host}:{number} ({error.strerror}).", "Choose --host."
            ) from None


def _owner(number: int) -> str:
    """The process that listens on the port, if this user may see it."""
    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr
            if listens and tuple(connection.laddr)[1] == number and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except psutil.Error:
        pass
    return ""
