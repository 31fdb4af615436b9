"""The sender: posts an event, or several, to its sink and reports what it sent and what came back."""

from __future__ import annotations

import asyncio
import json
import secrets
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from pyreqwest.client import Client
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.response import Response

from penstock.contract.names import Location, NothingThere
from penstock.events import http, json_format
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.timestamps import rfc3339_nano
from penstock.workloads.actors import event_files, options
from penstock.workloads.actors.eventinfo import EventInfo, canonical_name, reported_headers
from penstock.workloads.actors.options import BrokenEnvironment
from penstock.workloads.actors.reporting import Reports
from penstock.workloads.clients import client_builder

Locate = Callable[[str], Location]

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
        self, name: str, wanted: options.SenderOptions, reports: Reports, client: Client, locate: Locate
    ) -> None:
        self._name, self._wanted, self._reports = name, wanted, reports
        self._client, self._locate = client, locate
        self._secure: dict[tuple[str, str, int] | None, Client] = {}
        self._token = ""

    async def run(self) -> None:
        """Waits, probes the sink where asked to, sends. Raises BrokenEnvironment for what cannot be sent."""
        await asyncio.sleep(self._wanted.delay)
        if self._wanted.token:
            self._token = await _read_token(self._wanted.token)
        try:
            await self._run()
        finally:
            for client in self._secure.values():
                await client.close()

    async def _run(self) -> None:
        if self._wanted.probe:
            await self._probe()
        number = 0
        async for message in self._messages():
            if number:
                await asyncio.sleep(self._wanted.period)
            number += 1
            await self._send(number, message)

    async def _probe(self) -> None:
        """Returns when the sink gives any HTTP answer."""
        deadline = asyncio.get_running_loop().time() + self._wanted.probe_timeout
        while True:
            try:
                await self._request("HEAD", [], b"")
            except (PyreqwestError, NothingThere) as error:
                if asyncio.get_running_loop().time() >= deadline:
                    raise BrokenEnvironment(
                        f"the sink {self._wanted.sink} gave no answer within {self._wanted.probe_timeout:g} s: {error}"
                    ) from error
                await asyncio.sleep(PROBE_SECONDS)
            else:
                return

    async def _messages(self) -> AsyncIterator[Message]:
        if self._wanted.files:
            for path in self._wanted.files:
                yield message_of(await event_files.read_json(path), self._wanted)
            return
        if self._wanted.yaml:
            for event in await event_files.load(self._wanted.yaml, self._client):
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
        except (PyreqwestError, NothingThere) as failure:
            error = f"{type(failure).__name__}: {failure}"
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
            await self._reports.report(await self._response(number, sent_id, response))
        elif self._wanted.files:
            raise BrokenEnvironment(f"failed to forward the event to {self._wanted.sink}: {error}")

    async def _response(self, number: int, sent_id: str, response: Response) -> EventInfo:
        headers = [(name.lower(), value) for name, value in response.headers.items()]
        body = bytes(await response.bytes())
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

    async def _request(self, method: str, headers: list[tuple[str, str]], body: bytes) -> Response:
        location = self._locate(self._wanted.sink)
        # With the spelling of Go's client, because receivers report headers as they come.
        request = self._client_to(location).request(method, location.named_url)
        request = request.headers([(canonical_name(name), value) for name, value in headers])
        if self._token:
            request = request.bearer_auth(self._token)
        if location.host:
            request = request.header("Host", location.host)
        if self._wanted.add_tracing:
            request = request.header("Traceparent", f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01")
        if body or method == "POST":
            request = request.body_bytes(body)
        return await request.build().send()

    def _client_to(self, location: Location) -> Client:
        """One that believes the sink by CA_CERTS, too, and knows where its name leads."""
        lead = location.lead
        if not location.url.startswith("https:"):
            return self._client
        if lead not in self._secure:
            builder = client_builder()
            if self._wanted.ca_certs:
                builder = builder.add_root_certificate_pem(self._wanted.ca_certs.encode())
            self._secure[lead] = (builder if lead is None else builder.resolve(*lead)).build()
        return self._secure[lead]


async def _read_token(path: str) -> str:
    try:
        return (await asyncio.to_thread(Path(path).read_text)).strip()
    except OSError as error:
        raise BrokenEnvironment(f"could not read token from file: {error}") from error


def next_message(wanted: options.SenderOptions, number: int) -> Message:
    """The request with this number, from 1. INPUT_HEADERS and INPUT_BODY win over INPUT_EVENT."""
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
        event = json_format.decode(json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode())
    except MalformedEvent as malformed:
        raise BrokenEnvironment(f"INPUT_EVENT is no CloudEvent: {malformed}") from malformed
    return message_of(event, wanted)


def message_of(event: CloudEvent, wanted: options.SenderOptions) -> Message:
    """The event in the encoding that was asked for."""
    headers, body = http.to_structured(event) if wanted.encoding == "structured" else http.to_binary(event)
    return Message(headers, body, event)
