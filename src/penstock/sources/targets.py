"""Which addresses may be connected to for a URL: those behind it that events of a namespace may be delivered to.

An HTTP client gets the addresses themselves and looks nothing up, so a name cannot lead elsewhere between the check and
the connection. What the client could read otherwise than it was read here (backslashes, numbers in place of addresses)
is refused.
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
    """Nothing may be sent to the URL; the text says why."""


async def targets_of(location: Location, destinations: Destinations | None, namespace: str) -> list[Target]:
    """The addresses behind a place that may be connected to. Raises Refused."""
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
    """The URL, which means the same to every client. Raises Refused."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in PORTS and parts.port != 0 and not _MISREAD.search(url)
        host = (parts.hostname or "").encode("idna").decode() if known and not _is_address(parts.hostname) else None
    except (ValueError, UnicodeError) as error:
        raise Refused(f"{url} is no URL of HTTP: {error}") from error
    if not known or (host is not None and not is_name(host)):
        raise Refused(f"{url} is no URL of HTTP with the name or the address of a host")
    return parts if host is None else parts._replace(netloc=_netloc(parts, host))


def is_name(host: str) -> bool:
    """Whether the text is the name of a host, and no client takes it for an address."""
    return bool(_NAME.fullmatch(host)) and not _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2])


def target(parts: SplitResult, host: str | None, address: str) -> Target:
    """How to connect to one address of the URL's host. `host`: the name that was asked for, if another."""
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
    """What a host stands for now. Raises OSError or TimeoutError."""
    if _is_address(host):
        return [host]
    async with asyncio.timeout(LOOKUP_SECONDS):
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[4][0]) for place in found))
