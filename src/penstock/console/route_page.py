"""`/routes/KIND/NAMESPACE/NAME`: one Trigger or Subscription: state, numbers, Kubernetes Events, Replays, and
forms to pause, resume and replay it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import isnan
from typing import Any
from urllib.parse import quote

import yaml
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.console.console import console_of
from penstock.console.live import shape
from penstock.console.map.graph import route_node, source_of
from penstock.console.pages import back, form, fragment, render
from penstock.kube.kinds import Obj
from penstock.kube.paths import api_path
from penstock.operations.cluster_api import (
    REPLAYS,
    SUBSCRIPTIONS,
    TRIGGERS,
    ClusterApi,
    Resource,
    is_paused,
    set_paused,
)
from penstock.operations.replays import ReplayOptions, ReplaySubject, is_over, line_of, replay_of, succeeded, warning_of
from penstock.operations.route_rates import RouteName
from penstock.runtime.errors import UserError
from penstock.runtime.hosts import without_userinfo


@dataclass(frozen=True)
class EventSummary:
    """The Kubernetes Events of one reason."""

    reason: str
    is_bad: bool
    count: int
    last: str
    message: str
    """Of the latest Event."""


def events_path(namespace: str, name: str) -> str:
    """The path of the Kubernetes Events of an object."""
    chosen = quote(f"involvedObject.name={name}", safe="")
    return f"{api_path('v1', 'events', namespace)}?fieldSelector={chosen}"


def event_summaries(listed: Obj | None, kind: str, name: str) -> list[EventSummary]:
    """The Kubernetes Events of an object, summed up by reason, the newest first."""
    found: dict[str, EventSummary] = {}
    events = [one for one in (listed or {}).get("items") or [] if _is_about(one, kind, name)]
    for event in sorted(events, key=_when):
        reason, before = str(event.get("reason") or ""), found.pop(str(event.get("reason") or ""), None)
        times = int(event.get("count") or (event.get("series") or {}).get("count") or 1)
        found[reason] = EventSummary(
            reason,
            event.get("type") == "Warning",
            times + (before.count if before else 0),
            _when(event),
            str(event.get("message") or event.get("note") or ""),
        )
    return list(reversed(found.values()))


def _is_about(event: Obj, kind: str, name: str) -> bool:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return about.get("kind") == kind and about.get("name") == name


def _when(event: Obj) -> str:
    metadata = event.get("metadata") or {}
    return str(event.get("lastTimestamp") or event.get("eventTime") or metadata.get("creationTimestamp") or "")


KINDS = {"trigger": TRIGGERS, "subscription": SUBSCRIPTIONS}
REPLAYS_SHOWN = 6


def show(request: Request) -> Response:
    """The page."""
    console, (resource, namespace, name) = console_of(request), route_of(request)
    api = console.api(request)
    obj = api.get(resource, namespace, name)
    status = obj.get("status") or {}
    route = RouteName(resource.kind, namespace, name)
    return render(
        request,
        "route/route.html",
        title=name,
        node=route_node(obj),
        source=source_of(obj),
        path=path_of(resource, namespace, name),
        paused=is_paused(obj),
        conditions=status.get("conditions") or [],
        delivery=status.get("delivery") or {},
        yaml=text_of(obj),
        row=console.numbers.frame.rows.get(route),
        summaries=event_summaries(api.read(events_path(namespace, name)), resource.kind, name),
        replays=replays_of(api, resource.kind, namespace, name),
    )


def route_of(request: Request) -> tuple[Resource, str, str]:
    """The route that the path names."""
    parts = request.path_params
    if parts["kind"] not in KINDS:
        raise HTTPException(404)
    return KINDS[parts["kind"]], parts["namespace"], parts["name"]


def path_of(resource: Resource, namespace: str, name: str) -> str:
    """The path of the page of a route."""
    return f"/routes/{resource.kind.lower()}/{quote(namespace, safe='')}/{quote(name, safe='')}"


def text_of(obj: Obj) -> str:
    """The object as YAML, without managed fields and passwords in URLs."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    text = yaml.safe_dump({**obj, "metadata": metadata}, sort_keys=False, allow_unicode=True, width=110)
    return "\n".join(map(without_userinfo, text.split("\n")))


def replays_of(api: ClusterApi, kind: str, namespace: str, name: str) -> list[dict[str, Any]]:
    """The Replays of a route, the newest first."""

    def is_of_route(replay: Obj) -> bool:
        target = (replay.get("spec") or {}).get("target") or {}
        return target.get("kind") == kind and target.get("name") == name

    found = [replay for replay in api.all(REPLAYS, namespace) if is_of_route(replay)]
    found.sort(key=lambda replay: str(replay["metadata"].get("creationTimestamp") or ""), reverse=True)
    return [replay_values(replay) for replay in found[:REPLAYS_SHOWN]]


def replay_values(replay: Obj) -> dict[str, Any]:
    """The progress of a Replay, for a template."""
    progress = str((replay.get("status") or {}).get("progress") or "0%").rstrip("%")
    over, state = is_over(replay), succeeded(replay)[0]
    return {
        "name": replay["metadata"]["name"],
        "line": line_of(replay),
        "warning": warning_of(replay),
        "over": over,
        "state": ("ready" if state == "True" else "failing") if over else "starting",
        "percent": 100.0 if over else _number(progress),
    }


def _number(text: str) -> float:
    try:
        return min(100.0, max(0.0, float(text)))
    except ValueError:
        return 0.0


def replays(request: Request) -> Response:
    """The progress of its Replays, for the script that refreshes them."""
    resource, namespace, name = route_of(request)
    found = replays_of(console_of(request).api(request), resource.kind, namespace, name)
    return fragment("route/replays.html", replays=found, path=path_of(resource, namespace, name))


async def points(request: Request) -> Response:
    """Its numbers of the last quarter of an hour."""
    console, (resource, namespace, name) = console_of(request), route_of(request)
    await asyncio.to_thread(console.api(request).get, resource, namespace, name)  # checks the permission
    numbers = console.numbers
    route = RouteName(resource.kind, namespace, name)
    row = numbers.frame.rows.get(route)
    past = [[None if isnan(number) else round(number, 4) for number in point] for point in numbers.past.of(route)]
    return JSONResponse({"points": past, "now": None if row is None else shape(row)})


Change = Callable[[ClusterApi, Resource, str, str, dict[str, str]], object]


def _change(
    work: Callable[[ClusterApi, Resource, str, str, dict[str, str]], object],
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that changes a route and redirects to its page."""

    async def endpoint(request: Request) -> Response:
        console, (resource, namespace, name), given = console_of(request), route_of(request), await form(request)
        await asyncio.to_thread(work, console.api(request), resource, namespace, name, given)
        console.objects.forget()
        return back(path_of(resource, namespace, name))

    return endpoint


def _pause(api: ClusterApi, resource: Resource, namespace: str, name: str, given: dict[str, str]) -> None:
    set_paused(api, resource, api.get(resource, namespace, name), True)


def _resume(api: ClusterApi, resource: Resource, namespace: str, name: str, given: dict[str, str]) -> None:
    set_paused(api, resource, api.get(resource, namespace, name), False)


def _replay(api: ClusterApi, resource: Resource, namespace: str, name: str, given: dict[str, str]) -> None:
    api.get(resource, namespace, name)
    api.create(REPLAYS, namespace, replay_of(ReplaySubject(resource.kind, name), replay_options(given)))


def replay_options(given: dict[str, str]) -> ReplayOptions:
    """The options in the form of a Replay. Raises UserError."""
    rate = given.get("rate", "").strip()
    try:
        events_a_second = float(rate) if rate else None
    except ValueError:
        raise UserError(f"Invalid rate {rate}: expected events per second.") from None
    return ReplayOptions(
        since=given.get("since", "").strip() or None,
        until=given.get("until", "").strip() or None,
        rate=events_a_second,
        dry_run=given.get("dry_run") == "on",
        dead_letters=given.get("what") == "dead_letters",
    )


def _stop(api: ClusterApi, resource: Resource, namespace: str, name: str, given: dict[str, str]) -> None:
    replay = given.get("replay", "")
    if not replay:  # without a name, all Replays of the namespace would be deleted
        raise HTTPException(400, "The form names no Replay to stop.")
    api.delete(REPLAYS, namespace, replay)


PATH = "/routes/{kind}/{namespace}/{name}"
ROUTES = [
    Route(PATH, show, methods=["GET"]),
    Route(f"{PATH}/replays", replays, methods=["GET"]),
    Route(f"{PATH}/points", points, methods=["GET"]),
    Route(f"{PATH}/pause", _change(_pause), methods=["POST"]),
    Route(f"{PATH}/resume", _change(_resume), methods=["POST"]),
    Route(f"{PATH}/replay", _change(_replay), methods=["POST"]),
    Route(f"{PATH}/stop", _change(_stop), methods=["POST"]),
]
