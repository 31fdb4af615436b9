"""Addresses of Pods: each has its own loopback address, so that it can listen on its containerPort.

On Linux all of 127.0.0.0/8 is local. If only 127.0.0.1 can be bound (macOS), Pods share that address and get other
ports, which the annotation `penstock.dev/pod-ports` (`8080=41234`) records for the Service's endpoints.
"""

from __future__ import annotations

import errno
import socket
import zlib
from dataclasses import dataclass

from penstock.runtime.sockets import bound_socket

NETWORK = "127.66"
SHARED = "127.0.0.1"
CLAIM_PORT = 47806
"""Binding this UDP port claims an address: TCP ports stay free, and other stacks see that it is taken."""

_HOSTS = 254 * 254
_TRIES = 64


@dataclass(frozen=True)
class PodAddress:
    """The address of a Pod, for as long as it is not closed."""

    ip: str
    claim: socket.socket | None = None

    def close(self) -> None:
        """Releases the address."""
        if self.claim is not None:
            self.claim.close()

    def port(self, wanted: int) -> int:
        """The port to listen on for `wanted`: the same, or a free one if it is in use."""
        try:
            bound_socket(self.ip, wanted).close()
        except OSError:
            free = bound_socket(self.ip, 0)
            wanted = int(free.getsockname()[1])
            free.close()
        return wanted

    def listen(self, port: int) -> socket.socket:
        """A listening socket at this address. Raises OSError."""
        listener = bound_socket(self.ip, port)
        listener.listen(256)
        return listener


def candidates(seed: str, count: int = _TRIES) -> list[str]:
    """Addresses to try for a Pod, in order. They depend on the seed, so that stacks rarely collide."""
    start = zlib.crc32(seed.encode()) % _HOSTS
    return [_address((start + step) % _HOSTS) for step in range(count)]


def claim(seed: str) -> PodAddress:
    """An address that no other Pod of this machine has, or the shared one."""
    for ip in candidates(seed):
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            holder.bind((ip, CLAIM_PORT))
        except OSError as error:
            holder.close()
            if error.errno == errno.EADDRNOTAVAIL:
                break
        else:
            return PodAddress(ip, holder)
    return PodAddress(SHARED)


def _address(number: int) -> str:
    return f"{NETWORK}.{number // 254 + 1}.{number % 254 + 1}"
