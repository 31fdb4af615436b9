"""The sender: sends events to its sink and reports them and the responses."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from penstock.events import http, json_format
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.runtime.times import rfc3339_nano
from penstock.web.http_clients import HttpResponse
from penstock.workloads.actors import event_files, options
from penstock.workloads.actors.options import BrokenEnvironment
from penstock.workloads.actors.outgoing import NotSent, Outgoing
from penstock.workloads.actors.reporting import EventInfo, Reports, canonical_name, reported_headers
from penstock.workloads.actors.volume_files import VolumeFiles

PROBE_SECONDS = 0.5


@dataclass(frozen=True)
class Message:
    """One request to send."""

    headers: list[tuple[str, str]]
    body: bytes
    event: CloudEvent | None


class SendingActor:
    """Sends as its options say, then ends."""

    def __init__(
        self, name: str, wanted: options.SenderOptions, reports: Reports, outgoing: Outgoing, files: VolumeFiles
    ) -> None:
        self._name, self._wanted, self._reports = name, wanted, reports
        self._outgoing, self._files = outgoing, files
        self._token = ""

    async def run(self) -> None:
        """Waits, probes the sink if configured, and sends. Raises BrokenEnvironment for invalid events."""
        await asyncio.sleep(self._wanted.delay)
        if self._wanted.token:
            self._token = await self._read_token(self._wanted.token)
        if self._wanted.probe:
            await self._probe()
        number = 0
        async for message in self._messages():
            if number:
                await asyncio.sleep(self._wanted.period)
            number += 1
            await self._send(number, message)

    async def _probe(self) -> None:
        """Returns when the sink responds with any status."""
        deadline = asyncio.get_running_loop().time() + self._wanted.probe_timeout
        while True:
            try:
                await self._request("HEAD", [], b"")
            except NotSent as error:
                if asyncio.get_running_loop().time() >= deadline:
                    raise BrokenEnvironment(
                        f"the sink {self._wanted.sink} did not respond within {self._wanted.probe_timeout:g} s: {error}"
                    ) from error
                await asyncio.sleep(PROBE_SECONDS)
            else:
                return

    async def _messages(self) -> AsyncIterator[Message]:
        if self._wanted.files:
            for path in self._wanted.files:
                yield message_of(await event_files.read_json(path, self._files), self._wanted)
            return
        if self._wanted.yaml:
            for event in await event_files.load(self._wanted.yaml, self._files, self._outgoing):
                yield message_of(event, self._wanted)
            return
        number = 0
        while not self._wanted.count or number < self._wanted.count:
            number += 1
            yield next_message(self._wanted, number)

    async def _send(self, number: int, message: Message) -> None:
        response, error = None, ""
        try:
            response = await self._request(self._wanted.method, message.headers, message.body)
        except NotSent as failure:
            error = str(failure)
        sent_id = message.event.id if message.event else ""
        await self._reports.report(
            EventInfo(
                kind="Sent",
                observer=self._name,
                time=rfc3339_nano(),
                sequence=number,
                event=message.event,
                error=error,
                headers=reported_headers(message.headers),
                body=b"" if message.event else message.body,
                origin=self._name,
                sent_id=sent_id,
            )
        )
        if response is not None:
            await self._reports.report(self._response(number, sent_id, response))
        elif self._wanted.files:
            raise BrokenEnvironment(f"failed to forward the event to {self._wanted.sink}: {error}")

    def _response(self, number: int, sent_id: str, response: HttpResponse) -> EventInfo:
        headers, body = response.headers, response.body
        event, error = None, ""
        if http.is_event(dict(headers)):
            try:
                event = http.from_http(dict(headers), body)
            except MalformedEvent as malformed:
                error = str(malformed)
        return EventInfo(
            kind="Response",
            observer=self._name,
            time=rfc3339_nano(),
            sequence=number,
            event=event,
            error=error,
            headers=reported_headers(headers),
            body=b"" if event else body,
            status=response.status,
            origin=self._wanted.sink,
            sent_id=sent_id,
        )

    async def _request(self, method: str, headers: list[tuple[str, str]], body: bytes) -> HttpResponse:
        # With the spelling of Go's client, because receivers report headers unchanged.
        sent = [(canonical_name(name), value) for name, value in headers]
        if self._token:
            sent.append(("Authorization", f"Bearer {self._token}"))
        if self._wanted.add_tracing:
            sent.append(("Traceparent", f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"))
        return await self._outgoing.send(method, self._wanted.sink, sent, body if body or method == "POST" else None)

    async def _read_token(self, path: str) -> str:
        try:
            return (await self._files.read(path)).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BrokenEnvironment(f"could not read token from file: {error}") from error


def next_message(wanted: options.SenderOptions, number: int) -> Message:
    """The request with this number, from 1. INPUT_HEADERS and INPUT_BODY override INPUT_EVENT."""
    if wanted.headers or wanted.body:
        headers = [(name.lower(), value) for name, value in wanted.headers.items()]
        return Message(headers, wanted.body.encode(), None)
    members = dict(wanted.event or {})
    members.setdefault("specversion", "1.0")
    if wanted.incremental_id:
        members["id"] = str(number)
    members.setdefault("id", str(uuid.uuid4()))
    if wanted.add_sequence:
        members["sequence"] = str(number)
    if wanted.override_time:
        members["time"] = rfc3339_nano()
    try:
        event = json_format.decode(msgspec.json.encode(members))
    except MalformedEvent as malformed:
        raise BrokenEnvironment(f"INPUT_EVENT is not a CloudEvent: {malformed}") from malformed
    written = members.get("data")
    if isinstance(written, msgspec.Raw) and event.data == bytes(written).lstrip():
        event = CloudEvent(event.attributes, bytes(written))
    return message_of(event, wanted)


def message_of(event: CloudEvent, wanted: options.SenderOptions) -> Message:
    """The event in the configured encoding."""
    headers, body = http.to_structured(event) if wanted.encoding == "structured" else http.to_binary(event)
    return Message(headers, body, event)
