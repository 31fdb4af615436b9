"""What a PingSource must look like."""

from __future__ import annotations

import base64
import binascii
import json
import time

from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, within
from penstock.resources.sources.pingsource.schedule import BadLocation, BadSchedule, check_fires, parse
from penstock.resources.sources.source_spec import check_source

CONFIG_MAP = "config-ping-defaults"
SIZE_KEYS = ("data-max-size", "dataMaxSize")
UNLIMITED = -1


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the PingSource."""
    spec = obj.get("spec") or {}
    schedule, timezone = str(spec.get("schedule") or ""), str(spec.get("timezone") or "")
    errors = _check_schedule(schedule, timezone) + _check_data(spec, ctx)
    return within("spec", errors + check_source(spec))


def _check_schedule(schedule: str, timezone: str) -> FieldErrors:
    if "@every" in schedule:
        return [invalid("unsupported descriptor @every", "schedule")]
    try:
        check_fires(parse(schedule, timezone), int(time.time()))
    except BadLocation as error:
        return [invalid(error, "timezone")]
    except BadSchedule as error:
        return [invalid(error, "schedule")]
    return []


def _check_data(spec: Obj, ctx: AdmissionContext) -> FieldErrors:
    plain, encoded = spec.get("data") or "", spec.get("dataBase64") or ""
    if plain and encoded:
        return [FieldError("expected exactly one, got both", ("data", "dataBase64"))]
    name, text = ("dataBase64", encoded) if encoded else ("data", plain)
    if not text:
        return []
    errors: FieldErrors = []
    size, most = len(text.encode()), _most_bytes(ctx)
    if most > UNLIMITED and size > most:
        errors.append(invalid(f"the {name} length of {size} bytes exceeds limit set at {most}.", name))
    try:
        data = base64.b64decode(encoded, validate=True) if encoded else plain.encode()
    except (binascii.Error, ValueError):
        return [*errors, invalid(f"illegal base64 data at input byte {_first_illegal(encoded)}", name)]
    if spec.get("contentType") == "application/json":
        errors += [invalid(problem, name) for problem in _json_problems(data)]
    return errors


def _first_illegal(encoded: str) -> int:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n"
    return next((place for place, letter in enumerate(encoded) if letter not in alphabet), len(encoded))


def _json_problems(data: bytes) -> list[str]:
    """Knative takes a JSON object here, or null."""
    try:
        value = json.loads(data)
    except ValueError as error:
        return [_json_complaint(data.decode("utf-8", "replace"), error)]
    if value is None or isinstance(value, dict):
        return []
    kind = {str: "string", bool: "bool", list: "array"}.get(type(value), "number")
    return [f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"]


def _json_complaint(text: str, error: ValueError) -> str:
    place = error.pos if isinstance(error, json.JSONDecodeError) else 0
    if place >= len(text):
        return "unexpected end of JSON input"
    return f"invalid character '{text[place]}' looking for beginning of value"


def _most_bytes(ctx: AdmissionContext) -> int:
    configured = ctx.configmaps.get(CONFIG_MAP, {})
    for key in SIZE_KEYS:
        text = configured.get(key, "").strip()
        if text.isascii() and text.isdigit():
            return int(text)
    return UNLIMITED
