"""Reads the metrics of an installation, from the files of a data folder or over HTTP; two samples give rates."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx2
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from penstock.observability.exposition import SharedMetrics
from penstock.observability.selected_metrics import SelectedMetrics
from penstock.operations.installation import of_stack, running_folder
from penstock.operations.route_rates import (
    COUNTED,
    Counters,
    RouteName,
    RouteRow,
    TargetName,
    accepted_of,
    counters_of,
    rows_of,
)
from penstock.operations.stack_state import METRICS
from penstock.runtime.errors import UserError
from penstock.runtime.hosts import in_url

Resolve = Callable[..., list[Any]]
"""`socket.getaddrinfo`, or a double of it."""


@dataclass(frozen=True)
class Counted:
    """One sample of the counters."""

    routes: dict[RouteName, Counters]
    targets: dict[TargetName, float]
    """Events that each Broker and channel has accepted."""


def counting_in(folder: Path) -> Callable[[], Counted]:
    """A function that samples the counters of the processes of a data folder; the first call is the most expensive."""
    selected = SelectedMetrics(folder, COUNTED)
    return lambda: _counted(selected.collect())


def _counted(metrics: list[Metric]) -> Counted:
    return Counted(counters_of(metrics), accepted_of(metrics))


def counted_at(urls: Collection[str], authority: Path | None = None, resolve: Resolve = socket.getaddrinfo) -> Counted:
    """The counters at these URLs, added up; HTTPS is verified with the CA. Raises UserError."""
    routes: dict[RouteName, Counters] = {}
    targets: dict[TargetName, float] = {}
    for page in (page for url in urls for page in pages_of(url, resolve)):
        metrics = list(_fetched(page, authority))
        routes |= counters_of(metrics)
        for target, accepted in accepted_of(metrics).items():
            targets[target] = targets.get(target, 0.0) + accepted
    return Counted(routes, targets)


@dataclass(frozen=True)
class MetricsPage:
    """The URL of the metrics of one process."""

    url: str
    host: str | None = None
    """The name for the Host header, if the URL has the address of one process of several."""


def pages_of(url: str, resolve: Resolve) -> list[MetricsPage]:
    """One page for each process behind a URL: a name with several addresses, such as that of a headless Service, has
    a process at each. Other names are left to the HTTP client, which also chooses between IPv4 and IPv6.
    """
    parts = urlsplit(url)
    try:
        found = resolve(parts.hostname, parts.port or parts.scheme, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return [MetricsPage(url)]
    addresses = list(dict.fromkeys(sockaddr[0] for family, *_, sockaddr in found if family == found[0][0]))
    if len(addresses) < 2:
        return [MetricsPage(url)]
    port = f":{parts.port}" if parts.port else ""
    return [
        MetricsPage(urlunsplit(parts._replace(netloc=in_url(address) + port)), parts.netloc) for address in addresses
    ]


def _fetched(page: MetricsPage, authority: Path | None = None) -> Iterable[Metric]:
    try:
        trusted = ssl.create_default_context(cafile=authority) if page.url.startswith("https://") else False
        named = {} if page.host is None else {"Host": page.host}
        name = urlsplit(f"//{page.host}").hostname if page.host else None
        with httpx2.Client(timeout=10, trust_env=False, verify=trusted) as client:
            response = client.get(page.url, headers=named, extensions={"sni_hostname": name} if name else {})
        response.raise_for_status()
        return list(text_string_to_metric_families(response.text))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise UserError(f"The metrics at {page.url} cannot be read: {error}.") from None


class MetricsSamples:
    """Samples the metrics of an installation; each sample is compared with the one before."""

    def __init__(self, url: str | None, data_dir: Path | None) -> None:
        self._url = url
        self._folder = None
        if url is None:
            root = of_stack(running_folder(data_dir)).root or Path()
            self._folder = root / METRICS
            if not any(self._folder.glob("*.db")):
                raise UserError("The stack records no metrics.", "Restart it with metrics=true.")
        self._before, self._at = self._sample(), time.monotonic()

    def rows(self, seconds: float) -> list[RouteRow]:
        """The rates since the last sample, waiting until it is so many seconds old."""
        time.sleep(max(0.0, self._at + seconds - time.monotonic()))
        return self.rows_now()

    def rows_now(self) -> list[RouteRow]:
        """The rates since the last sample."""
        after, now = self._sample(), time.monotonic()
        rows = rows_of(self._before, after, max(0.001, now - self._at))
        self._before, self._at = after, now
        return rows

    def _sample(self) -> dict[RouteName, Counters]:
        if self._folder is not None:
            return counters_of(SharedMetrics(self._folder).collect())
        return counters_of(_fetched(MetricsPage(self._url or "")))
