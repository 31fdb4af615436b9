"""The graph of the map, from the objects of the API: Brokers and channels, their routes, subscribers and dead letter
sinks, with the state of each; and a short cache of the objects for all pages.

A band is a Broker or channel with its routes; bands stand below each other on the map.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.kube.kinds import Obj
from penstock.operations.cluster_api import (
    ROUTES,
    TARGETS,
    ClusterApi,
    is_paused,
)
from penstock.operations.route_rates import RouteName
from penstock.resources.conditions import find
from penstock.resources.delivery_status import DELIVERING
from penstock.resources.destinations import EVENTS_RETAINED, is_expiring
from penstock.runtime.hosts import without_userinfo

BAD = ("expiring", "failing", "not ready")


@dataclass(frozen=True)
class MapSink:
    """Where events go: a subscriber or a dead letter sink."""

    title: str
    detail: str = ""


@dataclass(frozen=True)
class RouteNode:
    """A Trigger or Subscription."""

    name: RouteName
    state: str
    why: str
    wants: str
    """Which events it takes, in a few words."""
    subscriber: MapSink
    dead_letters: MapSink | None
    lag: int

    @property
    def key(self) -> str:
        """By which its numbers are found."""
        return "/".join(self.name)

    @property
    def is_bad(self) -> bool:
        """Whether it needs attention."""
        return self.state in BAD

    @property
    def text(self) -> str:
        """The text that a search matches."""
        parts = (self.key, self.state, self.wants, self.subscriber.title, self.subscriber.detail)
        return " ".join(parts).lower()


@dataclass(frozen=True)
class Band:
    """A Broker or channel, and what takes events from it."""

    kind: str
    namespace: str
    name: str
    numbers: str
    """Key of its numbers."""
    state: str
    why: str
    routes: tuple[RouteNode, ...]

    @property
    def key(self) -> str:
        """By which it is opened."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def bad(self) -> tuple[RouteNode, ...]:
        """Routes that need attention."""
        return tuple(route for route in self.routes if route.is_bad)


def bands_of(targets: Iterable[Obj], routes: Iterable[Obj]) -> list[Band]:
    """Everything there is; what is wrong first, then by name. A route to nothing has a band that is missing."""
    of: dict[tuple[str, str, str], list[RouteNode]] = defaultdict(list)
    for obj in routes:
        of[source_of(obj)].append(route_node(obj))
    known = {}
    for obj in targets:
        if not _is_behind_a_channel(obj):
            known[obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"]] = obj
    bands = [_band(place, known.get(place), of.get(place, [])) for place in known.keys() | of.keys()]
    return sorted(bands, key=lambda band: (not (band.bad or band.state in BAD), not band.routes, band.key))


def source_of(route: Obj) -> tuple[str, str, str]:
    """The Broker or channel that a route takes events from."""
    spec, namespace = route.get("spec") or {}, route["metadata"]["namespace"]
    if route["kind"] == "Trigger":
        ref = spec.get("brokerRef") or {}
        return "Broker", str(ref.get("namespace") or namespace), str(ref.get("name") or spec.get("broker") or "default")
    channel = spec.get("channel") or {}
    return str(channel.get("kind") or "Channel"), namespace, str(channel.get("name") or "")


def route_node(obj: Obj) -> RouteNode:
    """A Trigger or Subscription on the map."""
    spec, status, metadata = obj.get("spec") or {}, obj.get("status") or {}, obj["metadata"]
    physical = status.get("physicalSubscription") or {}
    state, why = state_of(obj)
    given = spec.get("subscriber") or spec.get("reply") or {}
    delivery = spec.get("delivery") or {}
    dead = place_of(
        delivery.get("deadLetterSink") or {}, status.get("deadLetterSinkUri") or physical.get("deadLetterSinkUri")
    )
    return RouteNode(
        RouteName(obj["kind"], metadata["namespace"], metadata["name"]),
        state,
        why,
        wants_of(spec),
        place_of(given, status.get("subscriberUri") or physical.get("subscriberUri")) or MapSink("nowhere"),
        dead,
        int((status.get("delivery") or {}).get("lag") or 0),
    )


def place_of(destination: Obj, resolved: str | None) -> MapSink | None:
    """A destination by what it refers to, and the address that was found for it."""
    ref = destination.get("ref") or {}
    address = short_address(str(resolved or destination.get("uri") or ""))
    if ref.get("name"):
        return MapSink(str(ref["name"]), str(ref.get("kind") or ""))
    return MapSink(*address) if address[0] else None


def short_address(url: str) -> tuple[str, str]:
    """Host and path of an address, as two lines."""
    rest = without_userinfo(url).partition("://")[2] or url
    host, slash, path = rest.partition("/")
    return host, f"{slash}{path}" if path else ""


def wants_of(spec: Obj) -> str:
    """Which events a route takes, in a few words."""
    filters = spec.get("filters") or []
    if filters:
        return " and ".join(_words(one) for one in filters)
    attributes = (spec.get("filter") or {}).get("attributes") or {}
    return " and ".join(f"{name} = {value}" for name, value in attributes.items()) or "all events"


def _words(filter_: Obj) -> str:
    for dialect, content in filter_.items():
        if dialect in ("exact", "prefix", "suffix") and isinstance(content, dict):
            sign = {"exact": "=", "prefix": "begins with", "suffix": "ends with"}[dialect]
            return " and ".join(f"{name} {sign} {value}" for name, value in content.items())
        if dialect == "cesql":
            return str(content)
        if dialect in ("all", "any") and isinstance(content, list):
            return f" {'and' if dialect == 'all' else 'or'} ".join(_words(one) for one in content)
        if dialect == "not" and isinstance(content, dict):
            return f"not {_words(content)}"
        return dialect
    return "all events"


def _band(place: tuple[str, str, str], obj: Obj | None, routes: list[RouteNode]) -> Band:
    kind, namespace, name = place
    state, why = ("not ready", f"there is no {kind} of this name") if obj is None else state_of(obj)
    ordered = sorted(routes, key=lambda one: (one.subscriber.title, one.subscriber.detail, one.name))
    return Band(kind, namespace, name, _numbers_of(place, obj), state, why, tuple(ordered))


def _numbers_of(place: tuple[str, str, str], obj: Obj | None) -> str:
    """Events are accepted for the channel that a Channel stands for."""
    kind, namespace, name = place
    if kind == "Channel" and obj is not None:
        behind = (obj.get("status") or {}).get("channel") or {}
        return f"{behind.get('kind') or 'InMemoryChannel'}/{namespace}/{behind.get('name') or name}"
    return f"{kind}/{namespace}/{name}"


def _is_behind_a_channel(obj: Obj) -> bool:
    owners = obj["metadata"].get("ownerReferences") or []
    return obj["kind"] != "Channel" and any(owner.get("kind") == "Channel" for owner in owners)


FRESH_SECONDS = 2.0
MOST = 50


class Objects(NamedTuple):
    """What there is."""

    targets: list[Obj]
    """Brokers and channels."""
    routes: list[Obj]
    """Triggers and Subscriptions."""


class RecentObjects:
    """Caches the last response of the API for a moment: listing thousands of routes takes a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[ClusterApi, tuple[float, Objects]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, api: ClusterApi) -> Objects:
        """The objects that the owner of a connection may see. Raises UserError."""
        with self._lock:
            at, objects = self._kept.get(api, (float("-inf"), Objects([], [])))
        if self._clock() - at < FRESH_SECONDS:
            return objects
        objects = Objects(*([obj for kind in kinds for obj in api.all(kind)] for kinds in (TARGETS, ROUTES)))
        with self._lock:
            self._kept[api] = (self._clock(), objects)
            self._kept.move_to_end(api)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return objects

    def forget(self) -> None:
        """Something was changed: the next answer is a new one."""
        with self._lock:
            self._kept.clear()


def state_of(obj: dict[str, Any]) -> tuple[str, str]:
    """`ready`, `paused`, `expiring`, `failing` or `not ready`, and why; problems take precedence."""
    conditions = (obj.get("status") or {}).get("conditions")
    ready, delivering = find(conditions, "Ready") or {}, find(conditions, DELIVERING) or {}
    if ready.get("status") != "True":
        return "not ready", str(ready.get("message") or ready.get("reason") or "pending")
    retained = find(conditions, EVENTS_RETAINED)
    if is_expiring(retained):
        return "expiring", str((retained or {}).get("message"))
    if delivering.get("status") == "False" and delivering.get("reason") != "Paused":
        return "failing", str(delivering.get("message") or delivering.get("reason") or "")
    return ("paused", "its deliveries are held") if is_paused(obj) else ("ready", "")
