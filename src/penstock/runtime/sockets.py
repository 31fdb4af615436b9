"""Listening sockets for asyncio, and the user at the other end of a local connection."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

Address = tuple[str, int]

CONNECTIONS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Linux lists the sockets of the machine here, each with the uid that opened it."""


def bound_socket(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A TCP socket bound to the address; `shared` sets SO_REUSEPORT. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is given; otherwise responses are delayed by 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((host, port))
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return bound


def account_of(client: Address, server: Address, files: Iterable[Path] = CONNECTIONS) -> int | None:
    """The uid of the process that connected from one address to another; None if it is on another machine or
    unknown."""
    with contextlib.suppress(OSError, ValueError):
        wanted = [_listed(*client), _listed(*server)]
        for file in files:
            for line in file.read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1:3] == wanted:
                    return int(fields[7])
    return None


def _listed(host: str, port: int) -> str:
    """The address as it is listed: words of 32 bits in the byte order of the machine."""
    packed = ipaddress.ip_address(host).packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"
