"""Accepts the events of JobSinks: 202 says that the Job and the Secret with the event are stored.

The names of both follow from the event, so a retry creates only what is missing. A crash between the two loses nothing:
there was no 202, the sender retries, and the Job's Pod waits for its Secret.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from penstock.controllers.sinks.requests import RequestRejected, Subject, check_event, event_of, sender_of
from penstock.controllers.tracker import Tracker
from penstock.events import json_format
from penstock.events.event import CloudEvent
from penstock.kube.client import AsyncClient
from penstock.kube.errors import Conflict, KubeError, Unavailable
from penstock.kube.kinds import JOB, JOB_SINK, SECRET, Key, Obj, key_of
from penstock.observability.logs import describe
from penstock.resources.conditions import is_true
from penstock.resources.eventpolicy import SinkGuard
from penstock.resources.jobsink import job_name, job_of, location_of, read_location, secret_of
from penstock.resources.metadata import is_object_name

log = structlog.get_logger()


class JobSinks:
    """An ASGI application."""

    def __init__(
        self,
        api: AsyncClient,
        tracker: Tracker,
        max_event_bytes: int,
        guards: Mapping[Key, SinkGuard],
        subject: Subject,
    ) -> None:
        self._api, self._tracker, self._most = api, tracker, max_event_bytes
        self._guards, self._subject = guards, subject

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await self._respond(Request(scope, receive))
            await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._accept(request)
        if request.method == "GET":
            return await self._job_state(request)
        return PlainTextResponse("events are sent by POST\n", 405, {"allow": "GET, POST"})

    async def _accept(self, request: Request) -> Response:
        try:
            sink, guard = self._found(request)
            sender = await sender_of(request, guard, self._subject)
            event = await event_of(request, self._most)
            check_event(guard.rules, sender, event)
        except RequestRejected as error:
            return error.response
        try:
            await self._store(sink, event)
        except KubeError as error:
            return _failed(sink, error)
        metadata = sink["metadata"]
        location = location_of(metadata["namespace"], metadata["name"], event.source, event.id)
        return Response(status_code=202, headers={"location": location})

    def _found(self, request: Request) -> tuple[Obj, SinkGuard]:
        """The JobSink of the request, and its guard. Raises RequestRejected."""
        if not self._tracker.informer(JOB_SINK).synced.is_set():
            raise RequestRejected(503, "the JobSinks are not known yet")
        sink = self._sink(request.scope["path"])
        if sink is None:
            raise RequestRejected(404, "there is no JobSink at this path")
        guard = self._guards.get(key_of(sink))
        if guard is None:
            raise RequestRejected(503, "it is not known yet who may send to this JobSink")
        return sink, guard

    async def _store(self, sink: Obj, event: CloudEvent) -> None:
        wanted = job_of(sink, job_name(sink["metadata"]["name"], event.source, event.id))
        try:
            job = await self._api.create(JOB, wanted)
        except Conflict:
            found = await self._api.read(JOB, Key(wanted["metadata"]["namespace"], wanted["metadata"]["name"]))
            if found is None:
                raise
            job = found
        await self._store_event(secret_of(sink, job, json_format.encode(event)))

    async def _store_event(self, secret: Obj) -> None:
        try:
            await self._api.create(SECRET, secret)
        except Conflict:
            return
        except Unavailable:
            raise
        except KubeError:
            # Retrying does not help, for example because it is too large: its Job would wait for it for ever.
            with contextlib.suppress(KubeError):
                await self._api.delete(JOB, Key(secret["metadata"]["namespace"], secret["metadata"]["name"]))
            raise

    async def _job_state(self, request: Request) -> Response:
        """The state of an event's Job."""
        location = read_location(request.scope.get("raw_path", b"").decode("latin-1").partition("?")[0])
        if location is None:
            return PlainTextResponse("this is not the location of an event\n", 400)
        namespace, name, source, event_id = location
        if not (is_object_name(namespace) and is_object_name(name)):
            return PlainTextResponse("there is no JobSink of this name\n", 404)
        job = await self._api.read(JOB, Key(namespace, job_name(name, source, event_id)))
        if job is None:
            return PlainTextResponse("there is no Job of this event\n", 404)
        for kind, status in (("Failed", 400), ("Complete", 200)):
            if is_true(job, kind):
                return Response(status_code=status, headers={"reason": kind})
        return Response(status_code=202, headers={"location": location_of(*location)})

    def _sink(self, path: str) -> Obj | None:
        parts = path.strip("/").split("/")
        return self._tracker.informer(JOB_SINK).get(Key(*parts)) if len(parts) == 2 else None


def _failed(sink: Obj, error: KubeError) -> Response:
    """The response where not everything is stored: the sender must retry."""
    metadata = sink["metadata"]
    log.warning(
        "an event of a JobSink could not be stored",
        namespace=metadata["namespace"],
        name=metadata["name"],
        error=describe(error),
    )
    reason = str(error).encode("ascii", "replace").decode().replace("\n", " ")[:500]
    status = 503 if isinstance(error, Unavailable) else 500
    return PlainTextResponse(f"{error}\n", status, {"reason": reason.replace("\r", " ")})
