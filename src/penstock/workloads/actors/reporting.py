"""Reports of observed events, to the Pod's log (`kubectl logs`) and as Kubernetes Events (`kubectl get events`).

Reports are JSON with a documented order of fields. `Received` and `Rejected` are counted separately, so the first event
that is received after three rejected ones has sequence 1.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TextIO

from penstock.events.event import CloudEvent
from penstock.workloads.actors.node_line import NodeRefused
from penstock.workloads.actors.options import Common

Kind = Literal["Received", "Rejected", "Sent", "Response"]

_LEADING = ("specversion", "id", "source", "type", "subject", "datacontenttype", "dataschema", "schemaurl", "time")


@dataclass(frozen=True)
class EventInfo:
    """One observation."""

    kind: Kind
    observer: str
    time: str
    sequence: int
    event: CloudEvent | None = None
    error: str = ""
    headers: Mapping[str, list[str]] | None = None
    body: bytes = b""
    status: int = 0
    origin: str = ""
    sent_id: str = ""
    user: Mapping[str, Any] | None = None
    """The user of the token, as in a TokenReview."""

    def to_json(self) -> str:
        """The report as one line, without empty fields."""
        fields: dict[str, Any] = {"kind": self.kind}
        if self.error:
            fields["error"] = self.error
        if self.event is not None:
            fields["event"] = event_json(self.event)
        if self.headers:
            fields["httpHeaders"] = {name: self.headers[name] for name in sorted(self.headers)}
        if self.body:
            fields["body"] = base64.b64encode(self.body).decode()
        if self.status:
            fields["statusCode"] = self.status
        if self.origin:
            fields["origin"] = self.origin
        fields |= {"observer": self.observer, "time": self.time, "sequence": self.sequence}
        if self.sent_id:
            fields["id"] = self.sent_id
        if self.user is not None:
            fields["oidcUserInfo"] = dict(self.user)
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def event_json(event: CloudEvent) -> dict[str, Any]:
    """The event in the CloudEvents JSON format: context attributes, data, then extensions."""
    attributes = event.attributes
    fields: dict[str, Any] = {name: attributes[name] for name in _LEADING if name in attributes}
    if event.data is not None:
        fields |= _data(attributes.get("datacontenttype"), event.data)
    return fields | {name: value for name, value in attributes.items() if name not in _LEADING}


def _data(content_type: str | None, data: bytes) -> dict[str, Any]:
    media = (content_type or "application/json").partition(";")[0].strip().lower()
    if media.endswith(("/json", "+json")):
        try:
            return {"data": json.loads(data)}
        except ValueError:
            pass
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}


def reported_headers(headers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Request headers in Go's spelling (`Accept-Encoding`), without those that carry the event (`Ce-…`)."""
    reported: dict[str, list[str]] = {}
    for name, value in headers:
        canonical = canonical_name(name)
        if not canonical.startswith("Ce-"):
            reported.setdefault(canonical, []).append(value)
    return reported


def canonical_name(name: str) -> str:
    """Each word of a header's name with a capital first letter and small other letters."""
    return "-".join(word[:1].upper() + word[1:].lower() for word in name.split("-"))


Record = Callable[[str, str, str], Awaitable[None]]
"""(component, name of the Event, message) -> written as a Kubernetes Event about the Pod."""


class PodLog:
    """The program's output, which `kubectl logs` shows."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Appends each line of `text`."""
        self._file.write("".join(f"{line}\n" for line in text.splitlines() or [""]))
        self._file.flush()


class Reports:
    """The reports of one container."""

    def __init__(self, common: Common, log: PodLog, record: Record) -> None:
        self._common, self._log, self._record = common, log, record

    async def report(self, info: EventInfo) -> None:
        """Writes the report to everything in EVENT_LOGS. Errors are logged."""
        message = info.to_json()
        if "logger" in self._common.vents:
            self._log.write(message)
        if "recorder" in self._common.vents:
            name = f"{self._common.name}.{info.kind}.{info.sequence}"
            try:
                await self._record(self._common.agent, name, message)
            except (NodeRefused, OSError) as error:  # the event counts as observed even so
                self._log.write(f"the Event {name} could not be written: {error}")

    def say(self, text: str) -> None:
        """Writes a line to the log only."""
        self._log.write(text)
