"""DNS names of the embedded control plane: which address `http://sink.default.svc.cluster.local` has on this machine.

For a name in the snapshot the connection is made to one of its addresses, and the request keeps the name as its Host.
A name in the snapshot without a ready address fails, as a Service without endpoints would; other names are left to DNS.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from penstock.contract.routes import ServiceName

CLUSTER_DOMAIN = "cluster.local"


@dataclass(frozen=True)
class Location:
    """Where to connect, and what Host to send."""

    url: str
    host: str | None = None
    """Host header that replaces the URL's own; None where they are the same."""

    @property
    def named_url(self) -> str:
        """For clients that verify the certificate against the URL's host: over TLS the original name stays in the URL,
        and the client gets its address from `lead`."""
        parts, lead = urlsplit(self.url), self.lead
        return self.url if lead is None else _with_netloc(parts, f"{lead[0]}:{lead[2]}")

    @property
    def lead(self) -> tuple[str, str, int] | None:
        """The name in `named_url`, its address, and the port; None where the URL has an address already."""
        parts = urlsplit(self.url)
        if self.host is None or parts.scheme != "https":
            return None
        return urlsplit(f"//{self.host}").hostname or "", parts.hostname or "", parts.port or 443


class Target(msgspec.Struct, frozen=True):
    """One address that a URL leads to, for an HTTP client."""

    url: str
    host: str | None = None
    """Header `Host`, where it is not that of the URL."""
    lead: tuple[str, str, int] | None = None
    """(name in the URL, its address, port), where the URL has a name."""


class NothingThere(LookupError):
    """The name is known but has no ready address at that port."""


class NameTable:
    """The names of one snapshot."""

    def __init__(self, names: Iterable[ServiceName] = ()) -> None:
        self._names = {name.host: name for name in names}
        self._turn = itertools.count()

    def __len__(self) -> int:
        return len(self._names)

    def locate(self, url: str) -> Location:
        """Where the URL leads. Raises NothingThere when the name is known and has no address at the URL's port."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        known = self._find(host)
        if known is None:
            return Location(url)
        port = str(parts.port or (443 if parts.scheme == "https" else 80))
        addresses = known.ports.get(port, ())
        if not addresses:
            raise NothingThere(f"{host}:{port} has no ready address behind it")
        return _location(parts, addresses[next(self._turn) % len(addresses)])

    def every_location(self, url: str) -> list[Location]:
        """All locations of the URL by these names; empty where its host is not one of them."""
        parts = urlsplit(url)
        known = self._find((parts.hostname or "").lower())
        port = str(parts.port or (443 if parts.scheme == "https" else 80))
        return [_location(parts, address) for address in (known.ports.get(port, ()) if known is not None else ())]

    def _find(self, host: str) -> ServiceName | None:
        """A name is found in full (`a.ns.svc.cluster.local`) or short (`a.ns.svc`, `a.ns`)."""
        for candidate in (host, f"{host}.{CLUSTER_DOMAIN}", f"{host}.svc.{CLUSTER_DOMAIN}"):
            if candidate in self._names:
                return self._names[candidate]
        return None


def service_host(name: str, namespace: str) -> str:
    """The name of a Service in full."""
    return f"{name}.{namespace}.svc.{CLUSTER_DOMAIN}"


def service_names(host: str) -> tuple[str, str, str]:
    """The name of a Service in full and short."""
    short = host.removesuffix(f".{CLUSTER_DOMAIN}")
    return host, short, short.removesuffix(".svc")


def _location(parts: SplitResult, address: str) -> Location:
    return Location(_with_netloc(parts, address), parts.netloc.rpartition("@")[2])


def _with_netloc(parts: SplitResult, netloc: str) -> str:
    return urlunsplit(parts._replace(netloc=netloc))
