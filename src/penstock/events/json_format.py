"""The CloudEvents JSON format: one event as an object, a batch as an array of them.

JSON data is kept as the very bytes it was written with. If `datacontenttype` is not a JSON type, a JSON string
stands for its text. Version 0.3 marks base64 data with the attribute `datacontentencoding`; such data stays encoded,
because the attribute stays with it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.events import media_type
from penstock.events.attributes import check_event, check_name, check_text
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.events.memo import Memo

JSON = "application/json"

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_STRING = msgspec.json.Decoder(str)
_decode_string = _STRING.decode
_ANYTHING = msgspec.json.Decoder(msgspec.Raw)
"""Checks that something is JSON without building it."""
_CORE = frozenset(
    {"specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema", "schemaurl"}
    | {"datacontentencoding"}
)


def decode(body: bytes) -> CloudEvent:
    """The event of a JSON object."""
    return _event(_parse(_OBJECT, body))


def decode_batch(body: bytes) -> list[CloudEvent]:
    """The events of a JSON array. Says which one is malformed."""
    events = []
    for position, members in enumerate(_parse(_ARRAY, body)):
        try:
            events.append(_event(members))
        except MalformedEvent as error:
            raise MalformedEvent(f"event {position} of the batch: {error}") from error
    return events


def encode(event: CloudEvent) -> bytes:
    """The event as a JSON object."""
    members: dict[str, Any] = dict(event.attributes)
    if event.data is not None:
        _put_data(members, event.data)
    return msgspec.json.encode(members)


def _parse(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        body.decode()  # data is kept without a look inside, so what is not UTF-8 must be found here
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise MalformedEvent(f"the body is not UTF-8: {error.reason} at byte {error.start}") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedEvent(f"the body is not an event in the JSON format: {error}") from error


def _event(members: dict[str, msgspec.Raw]) -> CloudEvent:
    data = members.pop("data", None)
    encoded = members.pop("data_base64", None)
    attributes: dict[str, str] = {}
    for given, raw in members.items():
        name = _ATTRIBUTES[given]
        value: str | None
        try:
            value = _decode_string(raw)
        except msgspec.MsgspecError:
            value = _value(name, bytes(raw))
        if value is None:
            continue
        if name in attributes:
            raise MalformedEvent(f"attribute {name!r} is given twice")
        check_text(name, value)
        attributes[name] = value
    check_event(attributes)
    if encoded is not None and bytes(encoded) != b"null":
        return CloudEvent(attributes, _decode_base64(attributes, encoded, data))
    if data is None:
        return CloudEvent(attributes)
    return CloudEvent(attributes, _plain_data(attributes, bytes(data)))


def _attribute(member: str) -> str:
    """The attribute that a member is for."""
    name = member.lower()
    check_name(name)
    return name


def _value(name: str, raw: bytes) -> str | None:
    """A member's value in canonical string form where it is not a plain string; None where it counts as absent."""
    first = raw[:1]
    if first == b'"':
        try:
            return _STRING.decode(raw)
        except msgspec.MsgspecError as error:
            raise MalformedEvent(f"attribute {name!r} is not a JSON string: {error}") from error
    if raw == b"null":
        return None
    if name in _CORE:
        raise MalformedEvent(f"attribute {name!r} is not a string")
    if raw in (b"true", b"false"):
        return raw.decode()
    if first in b"-0123456789":
        return "0" if raw == b"-0" else raw.decode()
    raise MalformedEvent(f"attribute {name!r} is neither a string nor a number nor a boolean")


def _plain_data(attributes: dict[str, str], raw: bytes) -> bytes | None:
    """The data of the member `data`."""
    if _stays_encoded(attributes):
        text = _text(raw)
        if text is None or _from_base64(text) is None:
            raise MalformedEvent("data is not base64 although 'datacontentencoding' says so")
        return text.encode()
    kind = attributes.get("datacontenttype")
    if kind is None:
        # An absent type means JSON in this format only, so it is spelled out for the others.
        attributes["datacontenttype"] = JSON
    elif not _is_json(kind):
        if raw == b"null":
            return None
        text = _text(raw)
        if text is not None:
            return text.encode()
    return raw


def _decode_base64(attributes: dict[str, str], encoded: msgspec.Raw, data: msgspec.Raw | None) -> bytes:
    if attributes["specversion"] != "1.0":
        raise MalformedEvent("'data_base64' is unknown to version 0.3; it uses 'datacontentencoding'")
    if data is not None and bytes(data) != b"null":
        raise MalformedEvent("'data' and 'data_base64' exclude each other")
    text = _text(bytes(encoded))
    decoded = None if text is None else _from_base64(text)
    if decoded is None:
        raise MalformedEvent("'data_base64' is not a base64 string")
    return decoded


def _put_data(members: dict[str, Any], data: bytes) -> None:
    if _stays_encoded(members):
        text = data.decode(errors="replace")
        # Binary mode takes the attribute as it comes; here a reader would find data that is not what it says.
        members["data"] = text if _from_base64(text) is not None else base64.b64encode(data).decode()
        return
    kind = media_type.parse(members.get("datacontenttype", ""))
    if kind is not None and kind.is_unicode:
        if kind.is_json and _is_json_text(data):
            members["data"] = msgspec.Raw(data)
            return
        if kind.is_text:
            try:
                members["data"] = data.decode()
            except UnicodeDecodeError:
                pass
            else:
                return
    if members["specversion"] == "1.0":
        members["data_base64"] = base64.b64encode(data).decode()
    else:
        members["datacontentencoding"] = "base64"
        members["data"] = base64.b64encode(data).decode()


def _stays_encoded(attributes: Mapping[str, str]) -> bool:
    """Whether data is base64 text by an attribute of version 0.3; in 1.0 an extension of that name means nothing."""
    return attributes["specversion"] != "1.0" and bool(attributes.get("datacontentencoding"))


def _is_json(kind: str) -> bool:
    parsed = media_type.parse(kind)
    return parsed is not None and parsed.is_json


def _is_json_text(data: bytes) -> bool:
    try:
        data.decode()
        _ANYTHING.decode(data)
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        return False
    return True


def _text(raw: bytes) -> str | None:
    """The text of a JSON string; None for any other JSON value."""
    if raw[:1] != b'"':
        return None
    try:
        return _STRING.decode(raw)
    except msgspec.MsgspecError as error:
        raise MalformedEvent(f"data is not a JSON string: {error}") from error


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


_ATTRIBUTES = Memo(_attribute)
