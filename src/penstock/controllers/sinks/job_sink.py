"""What takes the events of JobSinks: 202 says that the Job and the Secret with the event are stored.

An event that comes again finds both, or what is missing of them: a crash between the two loses nothing, since there was
no 202 and the sender tries again, and the Job's Pod waits for its Secret.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from penstock.controllers.api import CONFLICT, JOB, JOB_SINK, SECRET, Api, Key, Obj, code_of, key_of
from penstock.controllers.sinks.requests import event_of
from penstock.controllers.tracker import Tracker
from penstock.events import json_format
from penstock.events.event import CloudEvent
from penstock.observability.logs import describe
from penstock.resources.conditions import find
from penstock.resources.eventpolicy.rules import TargetRules
from penstock.resources.jobsink.door import JobSinkDoor
from penstock.resources.jobsink.model import job_name, job_of, location_of, read_location, secret_of

if TYPE_CHECKING:
    from penstock.oidc.verifier import TokenRefused

log = structlog.get_logger()

Subject = Callable[[str, str], Awaitable["str | TokenRefused"]]
"""Whose a token is that is for this audience. (token, audience)"""


class RequestNotTaken(Exception):
    """The request is not taken."""

    def __init__(self, answer: int | Response, why: str = "") -> None:
        super().__init__(why)
        if isinstance(answer, int):
            answer = PlainTextResponse(f"{why}\n", answer, {"www-authenticate": "Bearer"} if answer == 401 else None)
        self.answer = answer


class JobSinks:
    """An ASGI application."""

    def __init__(
        self, api: Api, tracker: Tracker, max_event_bytes: int, doors: Mapping[Key, JobSinkDoor], subject: Subject
    ) -> None:
        self._api, self._tracker, self._most = api, tracker, max_event_bytes
        self._doors, self._subject = doors, subject

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await self._answer(Request(scope, receive))
            await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._take(request)
        if request.method == "GET":
            return await self._tell(request)
        return PlainTextResponse("events are sent by POST\n", 405, {"allow": "GET, POST"})

    async def _take(self, request: Request) -> Response:
        try:
            sink, door = self._found(request)
            sender = await self._sender(request, door.rules)
            event = await self._event(request, door.rules, sender)
        except RequestNotTaken as refusal:
            return refusal.answer
        try:
            await self._store(sink, event)
        except Exception as error:
            return _failed(sink, error)
        metadata = sink["metadata"]
        location = location_of(metadata["namespace"], metadata["name"], event.source, event.id)
        return Response(status_code=202, headers={"location": location})

    def _found(self, request: Request) -> tuple[Obj, JobSinkDoor]:
        """The JobSink that is meant, and its door. Raises RequestNotTaken where the request came another way."""
        if not self._tracker.informer(JOB_SINK).synced.is_set():
            raise RequestNotTaken(503, "the JobSinks are not known yet")
        sink = self._sink(request.scope["path"])
        if sink is None:
            raise RequestNotTaken(404, "there is no JobSink at this path")
        door = self._doors.get(key_of(sink))
        if door is None:
            raise RequestNotTaken(503, "it is not known yet who may send to this JobSink")
        if not door.takes(request.url.scheme):
            raise RequestNotTaken(
                404, f"transport-encryption is {door.transport}: the address is in the JobSink's status"
            )
        return sink, door

    async def _sender(self, request: Request, rules: TargetRules | None) -> str:
        """Who sends; empty where everybody may. Raises RequestNotTaken."""
        if rules is None:
            return ""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise RequestNotTaken(
                401, f'send `Authorization: Bearer` with a token for the audience "{rules.access.audience}"'
            )
        found = await self._subject(token.strip(), rules.access.audience)
        if not isinstance(found, str):
            raise RequestNotTaken(503 if found.is_passing else 401, found.reason)
        why = rules.why_not(found)
        if why is not None:
            raise RequestNotTaken(403, why)
        return found

    async def _event(self, request: Request, rules: TargetRules | None, sender: str) -> CloudEvent:
        """What is sent. Raises RequestNotTaken."""
        event = await event_of(request, self._most)
        if isinstance(event, Response):
            raise RequestNotTaken(event)
        why = None if rules is None else rules.why_not_these(sender, [event])
        if why is not None:
            raise RequestNotTaken(403, why)
        return event

    async def _store(self, sink: Obj, event: CloudEvent) -> None:
        wanted = job_of(sink, job_name(sink["metadata"]["name"], event.source, event.id))
        try:
            job = await self._api.create(JOB, wanted)
        except Exception as error:
            if code_of(error) != CONFLICT:
                raise
            found = await self._api.read(JOB, Key(wanted["metadata"]["namespace"], wanted["metadata"]["name"]))
            if found is None:
                raise
            job = found
        await self._keep_event(secret_of(sink, job, json_format.encode(event)))

    async def _keep_event(self, secret: Obj) -> None:
        try:
            await self._api.create(SECRET, secret)
        except Exception as error:
            if code_of(error) == CONFLICT:
                return
            if code_of(error) is not None:
                # Refused for good, as one that is too large: a Job that waits for it would wait for ever.
                with contextlib.suppress(Exception):
                    await self._api.delete(JOB, Key(secret["metadata"]["namespace"], secret["metadata"]["name"]))
            raise

    async def _tell(self, request: Request) -> Response:
        """The state of an event's Job."""
        place = read_location(request.scope.get("raw_path", b"").decode("latin-1").partition("?")[0])
        if place is None:
            return PlainTextResponse("this is no location of an event\n", 400)
        namespace, name, source, event_id = place
        job = await self._api.read(JOB, Key(namespace, job_name(name, source, event_id)))
        if job is None:
            return PlainTextResponse("there is no Job of this event\n", 404)
        for kind, status in (("Failed", 400), ("Complete", 200)):
            if (find((job.get("status") or {}).get("conditions"), kind) or {}).get("status") == "True":
                return Response(status_code=status, headers={"reason": kind})
        return Response(status_code=202, headers={"location": location_of(*place)})

    def _sink(self, path: str) -> Obj | None:
        parts = path.strip("/").split("/")
        return self._tracker.informer(JOB_SINK).get(Key(*parts)) if len(parts) == 2 else None


def _failed(sink: Obj, error: Exception) -> Response:
    """Nothing, or not all, is stored: the sender has to try again."""
    metadata = sink["metadata"]
    log.warning(
        "an event of a JobSink could not be stored",
        namespace=metadata["namespace"],
        name=metadata["name"],
        error=describe(error),
    )
    reason = str(error).encode("ascii", "replace").decode().replace("\n", " ")[:500]
    status = 503 if code_of(error) is None else 500
    return PlainTextResponse(f"{error}\n", status, {"reason": reason.replace("\r", " ")})
