"""An event as text to be taken elsewhere: a command that sends it, or CloudEvents JSON. Pure."""

from __future__ import annotations

import base64
import shlex
from urllib.parse import quote

from penstock.console.events.places import AcceptingTarget
from penstock.events import http, json_format
from penstock.events.event import CloudEvent
from penstock.history.reader.answers import Event
from penstock.operations.sending import SendingAddress

LONGEST_ARGUMENT = 64 * 1024
"""Half of what Linux lets a single argument have."""

NAMED = ("specversion", "id", "source", "type", "subject", "time", "dataschema", "datacontenttype")


def cloud_event(event: Event) -> CloudEvent:
    """The event as it was accepted."""
    named = {name: value for name in NAMED if (value := getattr(event, name)) is not None}
    return CloudEvent({**named, **event.extensions}, event.data)


def as_json(event: CloudEvent) -> str:
    """CloudEvents JSON."""
    return json_format.encode(event).decode()


def as_curl(event: CloudEvent, place: AcceptingTarget | None, account: str = "") -> str:
    """A command that sends the event again, with a token of the ServiceAccount where the place asks for one. Data that
    is too long for a command is taken from a file.
    """
    headers, body = http.to_binary(event)
    address = place.address if place is not None else SendingAddress("")
    lines = [f"curl {shlex.quote(address.url or 'http://ADDRESS')}"]
    lines += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers]
    before = ""
    if place is not None and address.audience:
        asked = ["kubectl", "create", "token", account, "-n", place.namespace, "--audience", address.audience]
        lines.append(f'-H "Authorization: Bearer $({shlex.join(asked)})"')
    if place is not None and address.authorities:
        file = f"{place.name}-ca.pem"
        shown = ["kubectl", "get", place.kind.lower(), place.name, "-n", place.namespace]
        before = f"{shlex.join(shown)} -o jsonpath='{{.status.address.CACerts}}' > {shlex.quote(file)}\n"
        lines.append(f"--cacert {shlex.quote(file)}")
    if not any(name.lower() == http.CONTENT_TYPE for name, _ in headers):
        lines.append("-H 'Content-Type:'")  # curl would name one of its own
    text = _text(body)
    if len(body) > LONGEST_ARGUMENT:
        return before + _joined([*lines, f"--data-binary @{shlex.quote(file_name(event))}"])
    if text is not None:
        return before + _joined([*lines, f"--data-raw {shlex.quote(text)}"])
    encoded = base64.b64encode(body).decode()
    return f"{before}printf %s {encoded} | base64 -d | " + _joined([*lines, "--data-binary @-"])


def as_send(event: CloudEvent, place: AcceptingTarget, sender: str) -> str:
    """`penstock send` with the event as it is; `sender` are the flags that say who sends. Data that is too long for a
    command is taken from a file.
    """
    flag = "--broker" if place.kind == "Broker" else "--channel"
    to = [f"{flag} {place.name}", f"--namespace {place.namespace}", sender]
    text = as_json(event)
    if len(text.encode()) <= LONGEST_ARGUMENT:
        return f"printf %s {shlex.quote(text)} | \\\n  " + _joined(["penstock send --event -", *to])
    named = [f"-a {shlex.quote(f'{name}={value}')}" for name, value in event.attributes.items()]
    return _joined([f"penstock send --file {shlex.quote(file_name(event))}", *named, *to])


def file_name(event: CloudEvent) -> str:
    """What the data of an event is called as a file."""
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in event.id)
    return f"event-{plain[:80].strip('.') or 'data'}"


def disposition(name: str) -> str:
    """The header Content-Disposition of a file of this name. A header is ASCII; other letters are encoded as RFC 6266
    says, and browsers prefer that."""
    plain = "".join(letter if letter.isascii() else "-" for letter in name)
    encoded = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'attachment; filename="{plain}"{encoded}'


def _text(body: bytes) -> str | None:
    """What can stand in a command; None for bytes."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _joined(lines: list[str]) -> str:
    return " \\\n  ".join(lines)
