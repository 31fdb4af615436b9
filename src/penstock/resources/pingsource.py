"""PingSource: a fixed event by a schedule."""

from __future__ import annotations

import base64
import binascii
import json
import time
from dataclasses import dataclass
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.admission import AdmissionContext
from penstock.resources.conditions import conclude, false, true, unknown
from penstock.resources.destinations import ResolvedAddress, Unresolved
from penstock.resources.eventpolicy import NO_IDENTITY, SenderIdentity
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, within
from penstock.resources.metadata import ObjectIdentity
from penstock.resources.schedules import BadLocation, BadSchedule, check_fires, parse
from penstock.resources.sources import (
    DEPLOYED,
    acceptance_finding,
    check_source,
    event_attributes,
    extensions_of,
    sink_fields,
    sink_finding,
)

# Model.


EVENT_TYPE = "dev.knative.sources.ping"
EVERY_MINUTE = "* * * * *"


@dataclass(frozen=True)
class PingSource:
    """The spec of the object, as far as the controllers use it."""

    identity: ObjectIdentity
    schedule: str
    timezone: str
    content_type: str
    data: bytes | None
    extensions: dict[str, str]
    sink: dict[str, Any]

    @classmethod
    def read(cls, obj: Obj) -> PingSource:
        """The PingSource behind a stored object."""
        spec = obj.get("spec") or {}
        return cls(
            ObjectIdentity.read(obj),
            str(spec.get("schedule") or EVERY_MINUTE),
            str(spec.get("timezone") or ""),
            str(spec.get("contentType") or ""),
            _data(spec),
            {str(name): str(value) for name, value in extensions_of(spec).items()},
            dict(spec.get("sink") or {}),
        )

    @property
    def event_source(self) -> str:
        """The attribute `source` of its events."""
        return f"/apis/v1/namespaces/{self.identity.namespace}/pingsources/{self.identity.name}"


def _data(spec: Obj) -> bytes | None:
    """Data that an older validation accepted and that is not base64 counts as empty."""
    if spec.get("dataBase64"):
        try:
            return base64.b64decode(spec["dataBase64"], validate=True)
        except (binascii.Error, ValueError):
            return None
    return str(spec["data"]).encode() if spec.get("data") else None


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    if not obj["spec"].get("schedule"):
        obj["spec"]["schedule"] = EVERY_MINUTE


# Validation.


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


# Status.


@dataclass(frozen=True)
class PingObservation:
    """What the controller has found out."""

    sink: ResolvedAddress | Unresolved
    bad_schedule: str | None = None
    """Why the schedule cannot be kept; only of objects that no admission has seen."""
    trouble: str | None = None
    """Why events wait for the sink; None where none does."""
    identity: SenderIdentity = NO_IDENTITY


def status_of(obj: Obj, seen: PingObservation, now: str) -> dict[str, Any]:
    """The PingSource's status."""
    source = PingSource.read(obj)
    previous = (obj.get("status") or {}).get("conditions") or []
    if seen.bad_schedule is not None:
        deployed = false(DEPLOYED, "InvalidSchedule", seen.bad_schedule)
    else:
        deployed = true(DEPLOYED) if isinstance(seen.sink, ResolvedAddress) else unknown(DEPLOYED)
    findings = [sink_finding(seen.sink), deployed, seen.identity.finding(), *acceptance_finding(seen.trouble)]
    status: dict[str, Any] = {
        "observedGeneration": source.identity.generation,
        "conditions": conclude(previous, findings, now),
        **sink_fields(seen.sink),
        **seen.identity.fields(),
    }
    if isinstance(seen.sink, ResolvedAddress):
        status |= event_attributes(source.event_source, EVENT_TYPE)
    return status
