"""What every source's spec has: a sink, and attributes that are set on each event."""

from __future__ import annotations

from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.destinations.destination import check_destination
from penstock.resources.field_errors import FieldErrors, invalid_key, within


def check_source(spec: Obj) -> FieldErrors:
    """What is wrong with the sink and the overrides."""
    errors = within("sink", check_destination(spec.get("sink") or {}))
    return errors + within("ceOverrides.extensions", _check_extensions(extensions_of(spec)))


def extensions_of(spec: Obj) -> dict[str, Any]:
    """The attributes to set on each event, as written."""
    return dict((spec.get("ceOverrides") or {}).get("extensions") or {})


def _check_extensions(extensions: dict[str, Any]) -> FieldErrors:
    for name in extensions:
        if not name:
            return [invalid_key(name, "", "keys MUST NOT be empty")]
        if not (name.isascii() and name.isalnum()):
            return [invalid_key(name, "", "keys are expected to be alphanumeric")]
    return []
