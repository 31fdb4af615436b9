"""DNS for names that are not in the snapshot: one look-up per name at a time, in threads of its own.

A look-up in progress cannot be cancelled, and those of a zone whose servers do not respond take half a minute each. So
that names that hang do not delay others, look-ups that take long are counted separately: the next one starts in another
thread. Names that hung before share a few threads, and their deliveries do not wait for the look-up: they are withheld,
and retried when the name may be known.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from penstock.contract.attempts import FailureCause
from penstock.dispatcher.http.outcome import Withheld

LOOKUPS = 64
"""Look-ups that may run at the same time, not counting those that take long."""
SLOW_LOOKUPS = 8
"""The same for names whose last look-up hung."""
THREADS = 256
"""Look-ups of both kinds together."""
SLOW_SECONDS = 1.0
"""Time after which a look-up counts as slow."""
CACHE_SECONDS = 10.0
"""How long addresses are cached."""
REMEMBERED = 4096
"""Names whose addresses are cached, and names that are remembered as hanging."""

NOT_FOUND = frozenset(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY") if hasattr(socket, name)
)
"""Errors that say that the name does not exist or has no address. All others are failures of DNS itself."""
INVALID = ".invalid"
"""No name below it exists (RFC 6761), whether or not a DNS server can be asked."""

_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class _Lookup:
    host: str
    result: asyncio.Future[list[str]]
    is_slow: bool
    """Whether it counts as slow: the name hung before, or it has taken long already."""


class Resolver:
    """Finds the addresses behind names."""

    def __init__(self, look_up: Callable[[str], list[str]] | None = None) -> None:
        self._look_up = look_up or system_lookup
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="names")
        self._asked: dict[str, _Lookup] = {}
        self._waiting: deque[_Lookup] = deque()
        self._waiting_slow: deque[_Lookup] = deque()
        self._running = self._running_slow = 0
        self._found: dict[str, tuple[float, list[str]]] = {}
        """Addresses, and until when they are used."""
        self._hanging: dict[str, None] = {}
        """Names whose look-up hangs, or did the last time."""

    async def addresses(self, host: str) -> list[str]:
        """The addresses of a host, in the order in which to try them.

        Raises gaierror or UnicodeError where the name does not exist, and Withheld where that cannot be found out.
        """
        if _is_address(host):
            return [host]
        found = self._found.get(host)
        if found is not None and self._loop.time() < found[0]:
            return found[1]
        hung_before = host in self._hanging
        lookup = self._asked.get(host) or self._ask(host, hung_before)
        if hung_before:
            raise Withheld(f"DNS does not respond for {host}", FailureCause.DNS_UNAVAILABLE)
        try:
            return await asyncio.shield(lookup.result)
        except OSError as error:
            if isinstance(error, socket.gaierror) and error.errno in NOT_FOUND:
                raise
            reason = f"the address of {host} cannot be looked up: {error}"
            raise Withheld(reason, FailureCause.DNS_UNAVAILABLE) from error

    def forget(self, host: str) -> None:
        """Drops cached addresses that are unreachable: they may have changed."""
        self._found.pop(host, None)

    def close(self) -> None:
        """Starts no more look-ups."""
        self._waiting.clear()
        self._waiting_slow.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, host: str, hung_before: bool) -> _Lookup:
        lookup = self._asked[host] = _Lookup(host, self._loop.create_future(), hung_before)
        (self._waiting_slow if hung_before else self._waiting).append(lookup)
        self._begin_next()
        return lookup

    def _begin_next(self) -> None:
        while self._waiting and self._running - self._running_slow < LOOKUPS and self._running < THREADS:
            self._begin(self._waiting.popleft())
        while self._waiting_slow and self._running_slow < SLOW_LOOKUPS and self._running < THREADS:
            self._begin(self._waiting_slow.popleft())

    def _begin(self, lookup: _Lookup) -> None:
        self._running += 1
        self._running_slow += lookup.is_slow
        asked = self._loop.run_in_executor(self._threads, self._look_up, lookup.host)
        timer = self._loop.call_later(SLOW_SECONDS, self._takes_long, lookup)
        asked.add_done_callback(lambda done: self._answered(lookup, done, timer))

    def _takes_long(self, lookup: _Lookup) -> None:
        _remember(self._hanging, lookup.host, None)
        if not lookup.is_slow:
            lookup.is_slow = True
            self._running_slow += 1
            self._begin_next()

    def _answered(self, lookup: _Lookup, asked: asyncio.Future[list[str]], timer: asyncio.TimerHandle) -> None:
        timer.cancel()
        del self._asked[lookup.host]
        self._running -= 1
        self._running_slow -= lookup.is_slow
        if asked.cancelled():
            lookup.result.cancel()
            return
        problem = asked.exception()
        if problem is None:
            _remember(self._found, lookup.host, (self._loop.time() + CACHE_SECONDS, asked.result()))
            self._hanging.pop(lookup.host, None)
            lookup.result.set_result(asked.result())
        else:
            if isinstance(problem, socket.gaierror) and problem.errno in NOT_FOUND:
                self._hanging.pop(lookup.host, None)
            lookup.result.set_exception(problem)
            lookup.result.exception()  # retrieved here, because all waiters may be gone
        self._begin_next()


def _remember(table: dict[str, _T], host: str, value: _T) -> None:
    table.pop(host, None)
    table[host] = value
    if len(table) > REMEMBERED:
        del table[next(iter(table))]


def system_lookup(host: str) -> list[str]:
    """The addresses by the system's resolver; blocks."""
    if host.rstrip(".").endswith(INVALID):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
