"""Host names and addresses of this machine, and hosts in URLs."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator
from functools import lru_cache

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104
"""Hosts that stand for all addresses of the machine."""
_USERINFO = re.compile(r"//[^/?#]*@")


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def own_names() -> tuple[str, ...]:
    """The name and the non-loopback addresses of the machine."""
    return (socket.gethostname(), *_addresses())


@lru_cache(maxsize=8)
def reachable(host: str) -> str:
    """The host for other machines, in the form for URLs.

    For a wildcard address it is the machine's name if that resolves to a non-loopback address, otherwise the first
    address.
    """
    if host not in EVERYWHERE:
        return in_url(host)
    name = socket.gethostname()
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        found = []
    if any(not is_loopback(str(place[4][0]).partition("%")[0]) for place in found):
        return name
    return next((in_url(one) for one in _addresses()), "127.0.0.1")


def from_here(host: str) -> str:
    """The host for this machine, in the form for URLs."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host) or in_url(host)  # noqa: S104


def in_url(host: str) -> str:
    """The host in the form for URLs: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def without_userinfo(url: str) -> str:
    """A URL, or a text with URLs, without credentials: `https://user:password@host` becomes `https://***@host`."""
    return _USERINFO.sub("//***@", url) if "@" in url else url


def _addresses() -> Iterator[str]:
    import psutil

    for places in psutil.net_if_addrs().values():
        for place in places:
            if place.family in (socket.AF_INET, socket.AF_INET6):
                address = ipaddress.ip_address(place.address.partition("%")[0])
                if not (address.is_loopback or address.is_link_local):
                    yield str(address)
