"""Addresses of Pods: each has its own loopback address, so that its containerPort holds as it is written.

Linux answers on the whole of 127.0.0.0/8. Where only 127.0.0.1 can be bound (macOS), the Pod gets that address and a
free port, and says so in the annotation `penstock.dev/pod-ports` (`8080=41234`), which the Service's endpoints follow.
"""

from __future__ import annotations

import errno
import socket
import zlib

from penstock.sockets import bound_socket

ANNOTATION = "penstock.dev/pod-ports"
NETWORK = "127.66"
SHARED = "127.0.0.1"
_HOSTS = 254 * 254
_TRIES = 64


def candidates(seed: str, count: int = _TRIES) -> list[str]:
    """Addresses to try for a Pod, in order. Spread by the seed, so that stacks on one machine rarely meet."""
    start = zlib.crc32(seed.encode()) % _HOSTS
    return [_address((start + step) % _HOSTS) for step in range(count)]


def _address(number: int) -> str:
    return f"{NETWORK}.{number // 254 + 1}.{number % 254 + 1}"


def listen(seed: str, port: int) -> socket.socket:
    """A listening socket at an address of its own and `port`; at 127.0.0.1 and any port where that cannot be had."""
    for address in candidates(seed):
        try:
            return bind(address, port)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                break
            if error.errno != errno.EADDRINUSE:
                raise
    return bind(SHARED, 0)


def bind(address: str, port: int) -> socket.socket:
    """A listening socket at exactly this address. Raises OSError."""
    listener = bound_socket(address, port)
    listener.listen(256)
    return listener
