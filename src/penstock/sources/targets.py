"""Which addresses of a URL may be connected to: those to which the namespace may deliver events.

An HTTP client gets the addresses and resolves no names, so a name cannot resolve to another address between the check
and the connection. URLs that the client could parse differently (backslashes, numbers in place of addresses) are
refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from urllib.parse import SplitResult, urlsplit

from penstock.contract.names import Location, Target
from penstock.destinations import Destinations

PORTS = {"http": 80, "https": 443}
LOOKUP_SECONDS = 10.0

_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?\.?")
_MISREAD = re.compile(r"[\x00-\x20\x7f\\]")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")


class Refused(Exception):
    """Events may not be sent to the URL; the message says why."""


async def targets_of(location: Location, destinations: Destinations | None, namespace: str) -> list[Target]:
    """The addresses of a location that may be connected to. Raises Refused."""
    parts = checked(location.url)
    host = parts.hostname or ""
    try:
        addresses = await _addresses_of(host)
    except (OSError, UnicodeError) as error:  # TimeoutError is an OSError
        raise Refused(f"{host} has no address: {error or 'looking it up took too long'}") from error
    refusals: dict[str, str | None] = dict.fromkeys(addresses)
    if destinations is not None:
        zone = destinations.zone(namespace)
        refusals = {address: destinations.refusal(zone, address) for address in addresses}
    allowed = [address for address, refusal in refusals.items() if refusal is None]
    if not allowed:
        raise Refused(next(iter(refusals.values()), None) or f"{host} has no address")
    return [target(parts, location.host, address) for address in allowed]


def checked(url: str) -> SplitResult:
    """The parsed URL, if every client parses it in the same way. Raises Refused."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in PORTS and parts.port != 0 and not _MISREAD.search(url)
        host = (parts.hostname or "").encode("idna").decode() if known and not _is_address(parts.hostname) else None
    except (ValueError, UnicodeError) as error:
        raise Refused(f"invalid HTTP URL {url}: {error}") from error
    if not known or (host is not None and not is_name(host)):
        raise Refused(f"invalid HTTP URL {url}: expected http or https and a host name or address")
    return parts if host is None else parts._replace(netloc=_netloc(parts, host))


def is_name(host: str) -> bool:
    """Whether the text is a host name that no client takes for an address."""
    return bool(_NAME.fullmatch(host)) and not _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2])


def target(parts: SplitResult, host: str | None, address: str) -> Target:
    """How to connect to one address of the URL's host. `host`: the original host name, if it is not that of the URL."""
    named = host or parts.netloc.rpartition("@")[2]
    if parts.scheme == "http":
        return Target(parts._replace(netloc=_netloc(parts, address)).geturl(), named)
    name = urlsplit(f"//{named}").hostname or ""
    port = parts.port or PORTS[parts.scheme]
    lead = None if _is_address(name) else (name, address, port)
    return Target(parts._replace(netloc=_netloc(parts, name)).geturl(), named, lead)


def _netloc(parts: SplitResult, host: str) -> str:
    user, at, _ = parts.netloc.rpartition("@")
    port = f":{parts.port}" if parts.port else ""
    return f"{user}{at}[{host}]{port}" if ":" in host else f"{user}{at}{host}{port}"


def _is_address(host: str | None) -> bool:
    try:
        ipaddress.ip_address(host or "")
    except ValueError:
        return False
    return True


async def _addresses_of(host: str) -> list[str]:
    """The present addresses of a host. Raises OSError or TimeoutError."""
    if _is_address(host):
        return [host]
    async with asyncio.timeout(LOOKUP_SECONDS):
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
