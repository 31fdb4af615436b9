"""Request bodies in Kubernetes' protobuf, which Go clients send for built-in kinds, as the JSON that Go would write.

One generic walk converts the messages of all kinds. A field that Go writes although it is not set is left out, so that
the server fills in its defaults as for JSON. Responses are always JSON, which every client accepts.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from penstock.apiserver import errors
from penstock.apiserver.documents import decode
from penstock.apiserver.protobuf.messages import EXTENSIONS, META, NO_RULES, RUNTIME, kind_message, message, rules
from penstock.kube.kinds import Obj
from penstock.runtime.times import rfc3339_of

MEDIA = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


def json_form(message: Message) -> Any:
    """The JSON value of the message; None if it has none."""
    name = message.DESCRIPTOR.full_name
    special = _SPECIAL.get(name)
    if special:
        return special(message)
    rule = rules().get(name, NO_RULES)
    if rule.list:
        return [item for _, items in message.ListFields() for item in items]
    result: dict[str, Any] = {}
    for field, value in message.ListFields():
        form = _field_form(field, value)
        if field.name in rule.inline:
            result.update(form)
        elif form or (field.name in rule.kept and form is not None):
            result[rule.renamed.get(field.name, field.name)] = form
    return result


def _field_form(field: FieldDescriptor, value: Any) -> Any:
    if _is_map(field):
        content = field.message_type.fields_by_name["value"]
        return {key: _single_form(content, value[key]) for key in value}
    if field.is_repeated:
        return [_single_form(field, item) for item in value]
    return _single_form(field, value)


@cache
def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _single_form(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return json_form(value)
    return base64.b64encode(value).decode() if field.type == FieldDescriptor.TYPE_BYTES else value


def _time(message: Any) -> str | None:
    return rfc3339_of(message.seconds) if message.ListFields() else None


def _micro_time(message: Any) -> str | None:
    moment = _time(message)
    return f"{moment[:-1]}.{message.nanos // 1000:06d}Z" if moment else None


def _quantity(message: Any) -> str:
    return str(message.string)


def _int_or_string(message: Any) -> int | str:
    return str(message.strVal) if message.type else int(message.intVal)


def _raw(field: str) -> Callable[[Any], Any]:
    """JSON inside protobuf."""

    def form(message: Any) -> Any:
        content = getattr(message, field)
        return decode(content) if content else None

    return form


def _schema_or(other: str) -> Callable[[Any], Any]:
    """A schema, or its alternative."""

    def form(message: Any) -> Any:
        if message.HasField("schema"):
            return json_form(message.schema)
        value = getattr(message, other)
        return value if isinstance(value, bool) else _field_form(message.DESCRIPTOR.fields_by_name[other], value)

    return form


_SPECIAL: dict[str, Callable[[Any], Any]] = {
    f"{META}.Time": _time,
    f"{META}.MicroTime": _micro_time,
    f"{META}.FieldsV1": _raw("Raw"),
    f"{RUNTIME}.RawExtension": _raw("raw"),
    "k8s.io.apimachinery.pkg.api.resource.Quantity": _quantity,
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    f"{EXTENSIONS}.JSON": _raw("raw"),
    f"{EXTENSIONS}.JSONSchemaPropsOrArray": _schema_or("jSONSchemas"),
    f"{EXTENSIONS}.JSONSchemaPropsOrBool": _schema_or("allows"),
    f"{EXTENSIONS}.JSONSchemaPropsOrStringArray": _schema_or("property"),
}


def parse(body: bytes) -> Obj:
    """The object in a protobuf body; raises 400 if it cannot be read and 415 if its kind has no protobuf form."""
    if not body.startswith(_MAGIC):
        raise errors.bad_request("the body of the request is not Kubernetes protobuf")
    try:
        envelope: Any = message(f"{RUNTIME}.Unknown")
        envelope.ParseFromString(body[len(_MAGIC) :])
        identity = {"apiVersion": str(envelope.typeMeta.apiVersion), "kind": str(envelope.typeMeta.kind)}
        return {**identity, **_content(identity, bytes(envelope.raw))}
    except (DecodeError, msgspec.DecodeError, UnicodeDecodeError, ValueError, OverflowError, OSError):
        raise errors.bad_request("the body of the request is damaged protobuf") from None


def _content(identity: Obj, raw: bytes) -> Obj:
    try:
        found = kind_message(identity["apiVersion"], identity["kind"])
    except KeyError:
        raise errors.unsupported_media("application/json, application/yaml") from None
    found.ParseFromString(raw)
    form: Obj = json_form(found)
    return form
