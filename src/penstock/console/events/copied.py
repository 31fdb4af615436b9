"""An event as text to be taken elsewhere: a command that sends it, or CloudEvents JSON. Pure."""

from __future__ import annotations

import base64
import shlex

from penstock.console.events.places import Place
from penstock.events import http, json_format
from penstock.events.event import CloudEvent
from penstock.history.reader.answers import Event

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


def as_curl(event: CloudEvent, url: str) -> str:
    """A command that sends the event again. Data that is too long for a command is taken from a file."""
    headers, body = http.to_binary(event)
    lines = [f"curl {shlex.quote(url)}"]
    lines += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers]
    if not any(name.lower() == http.CONTENT_TYPE for name, _ in headers):
        lines.append("-H 'Content-Type:'")  # curl would name one of its own
    text = _text(body)
    if len(body) > LONGEST_ARGUMENT:
        return _joined([*lines, f"--data-binary @{shlex.quote(file_name(event))}"])
    if text is not None:
        return _joined([*lines, f"--data-raw {shlex.quote(text)}"])
    encoded = base64.b64encode(body).decode()
    return f"printf %s {encoded} | base64 -d | " + _joined([*lines, "--data-binary @-"])


def as_send(event: CloudEvent, place: Place, sender: str) -> str:
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


def _text(body: bytes) -> str | None:
    """What can stand in a command; None for bytes."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _joined(lines: list[str]) -> str:
    return " \\\n  ".join(lines)
