"""DNS for names that the snapshot does not know: each asked once at a time, in threads of its own.

The event loop's own look-ups share four threads, so that a few names whose servers do not answer would hold up all
others. Here a name that hangs holds one thread, however many deliveries wait for it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

LOOKUPS = 64
"""Names that may be asked for at the same time."""


class Resolver:
    """Finds the addresses behind names."""

    def __init__(self, look_up: Callable[[str], list[str]] | None = None) -> None:
        self._look_up = look_up or ask_system
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="names")
        self._asked: dict[str, asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str) -> list[str]:
        """The addresses of a host, in the order in which to try them. Raises OSError or UnicodeError."""
        if _is_address(host):
            return [host]
        asked = self._asked.get(host)
        if asked is None:
            asked = self._asked[host] = self._loop.run_in_executor(self._threads, self._look_up, host)
            asked.add_done_callback(lambda done: self._answered(host, done))
        return await asyncio.shield(asked)

    def _answered(self, host: str, asked: asyncio.Future[list[str]]) -> None:
        del self._asked[host]
        if not asked.cancelled():
            asked.exception()  # those who asked may be gone by now

    def close(self) -> None:
        """Asks nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def ask_system(host: str) -> list[str]:
    """What the system says; blocks."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[4][0]) for place in found))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
