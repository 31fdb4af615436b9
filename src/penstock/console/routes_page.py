"""`/routes`: all Triggers and Subscriptions in a table with live numbers."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.console.console import console_of
from penstock.console.map.graph import state_of
from penstock.console.pages import render
from penstock.kube.kinds import Obj
from penstock.operations.route_rates import RouteName, RouteRow
from penstock.runtime.hosts import without_userinfo


@dataclass(frozen=True)
class RouteLine:
    """A route in the table."""

    name: RouteName
    source: str
    """The Broker or channel of its events."""
    subscriber: str
    state: str
    """`ready`, `paused`, `expiring`, `failing` or `not ready`."""
    why: str
    row: RouteRow | None
    lag: int

    @property
    def key(self) -> str:
        """Identifies the row for scripts."""
        return "/".join(self.name)


def line_of(obj: Obj, row: RouteRow | None) -> RouteLine:
    """A route by its object, and its numbers, if any."""
    spec, status, metadata = obj.get("spec") or {}, obj.get("status") or {}, obj["metadata"]
    state, why = state_of(obj)
    source = f"broker/{spec.get('broker')}" if obj["kind"] == "Trigger" else _channel(spec.get("channel") or {})
    return RouteLine(
        RouteName(obj["kind"], metadata["namespace"], metadata["name"]),
        source,
        subscriber_of(spec, status, obj["kind"]),
        state,
        why,
        row,
        row.lag if row else int((status.get("delivery") or {}).get("lag") or 0),
    )


def subscriber_of(spec: Obj, status: Obj, kind: str) -> str:
    """The destination: the object that the spec names, otherwise the resolved address."""
    resolved = status.get("subscriberUri") or (status.get("physicalSubscription") or {}).get("subscriberUri")
    given = spec.get("subscriber") or spec.get("reply") or {}
    ref = given.get("ref") or {}
    named = f"{ref['kind'].lower()}/{ref['name']}" if ref.get("kind") and ref.get("name") else ""
    return named or without_userinfo(str(resolved or given.get("uri") or ""))


def _channel(ref: Obj) -> str:
    return f"{str(ref.get('kind') or 'channel').lower()}/{ref.get('name')}"


def table(request: Request) -> Response:
    """The page; the worst first."""
    console = console_of(request)
    rows = console.numbers.frame.rows
    objects = console.objects.of(console.api(request)).routes
    lines = [line_of(obj, rows.get(_name(obj))) for obj in objects]
    order = {"expiring": 0, "failing": 1, "not ready": 2, "paused": 3, "ready": 4}
    lines.sort(key=lambda line: (order[line.state], -line.lag, line.name))
    return render(request, "routes.html", title="Routes", lines=lines)


def _name(obj: Obj) -> RouteName:
    return RouteName(obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"])


ROUTES = [Route("/routes", table)]
