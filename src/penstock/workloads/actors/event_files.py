"""Reads events from files: YAML of the CloudEvents conformance project (INPUT_YAML), or JSON (FROM_FILES)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from penstock.events import json_format
from penstock.events.attributes import check_event
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.runtime.times import rfc3339
from penstock.workloads.actors.options import BrokenEnvironment
from penstock.workloads.actors.outgoing import NotSent, Outgoing
from penstock.workloads.actors.volume_files import VolumeFiles


async def load(sources: Sequence[str], files: VolumeFiles, outgoing: Outgoing) -> list[CloudEvent]:
    """All events of all sources, in order. Raises BrokenEnvironment naming the source."""
    events: list[CloudEvent] = []
    for source in sources:
        for text in await _texts(source, files, outgoing):
            try:
                events += parse(text)
            except (MalformedEvent, yaml.YAMLError) as error:
                raise BrokenEnvironment(f"INPUT_YAML: {source} has no CloudEvents: {error}") from error
    return events


async def read_json(path: str, files: VolumeFiles) -> CloudEvent:
    """The event of a file that FROM_FILES names. Raises BrokenEnvironment."""
    try:
        return json_format.decode(await files.read(path))
    except (OSError, MalformedEvent) as error:
        raise BrokenEnvironment(f"FROM_FILES: {path} has no event: {error}") from error


def parse(text: str) -> Iterator[CloudEvent]:
    """The events of one YAML text."""
    for document in yaml.safe_load_all(text):
        if document is not None:
            yield _event(document)


def _event(document: Any) -> CloudEvent:
    if not isinstance(document, dict) or not isinstance(document.get("ContextAttributes"), dict):
        raise MalformedEvent("a document has no ContextAttributes")
    given = dict(document["ContextAttributes"])
    extensions = given.pop("Extensions", None) or {}
    attributes = {name.lower(): _text(value) for name, value in {**given, **extensions}.items()}
    check_event(attributes)
    data = document.get("Data")
    return CloudEvent(attributes, None if data is None else str(data).encode())


def _text(value: Any) -> str:
    if hasattr(value, "timestamp"):
        return rfc3339(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


async def _texts(source: str, files: VolumeFiles, outgoing: Outgoing) -> list[str]:
    try:
        if not source.startswith(("http://", "https://")):
            return await files.texts(source)
        response = await outgoing.send("GET", source)
        text = response.body.decode()
    except (OSError, UnicodeDecodeError, NotSent) as error:
        raise BrokenEnvironment(f"INPUT_YAML: {source} cannot be read: {error}") from error
    if not 200 <= response.status < 300:
        raise BrokenEnvironment(f"INPUT_YAML: {source} cannot be read: the response has the status {response.status}")
    return [text]
