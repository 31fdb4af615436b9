"""Where events go: an object with an address, a URL, or a URL relative to an object's address."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from penstock.resources.destinations.kreference import check_reference, fill_namespace
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, within

_REF_AND_ABSOLUTE = "Absolute URI is not allowed when Ref or [apiVersion, kind, name] is present"
_RELATIVE_ALONE = "Relative URI is not allowed when Ref and [apiVersion, kind, name] is absent"


def fill_destination(destination: object, namespace: str) -> None:
    """Gives the destination's reference the namespace of the object that refers."""
    if isinstance(destination, dict):
        fill_namespace(destination.get("ref"), namespace)


def is_empty(destination: dict[str, Any] | None) -> bool:
    """Whether nothing is named at all."""
    return not any((destination or {}).values())


def check_destination(destination: dict[str, Any]) -> FieldErrors:
    """What is wrong with the destination."""
    ref, uri = destination.get("ref"), destination.get("uri")
    if not ref and not uri:
        return [FieldError("expected at least one, got none", ("ref", "uri"))]
    absolute = bool(uri) and _is_absolute(str(uri))
    if ref and absolute:
        return [FieldError(_REF_AND_ABSOLUTE, ("[apiVersion, kind, name]", "ref", "uri"))]
    if not ref and not (absolute and urlsplit(str(uri)).netloc):
        return [invalid(_RELATIVE_ALONE, "uri")]
    return within("ref", check_reference(ref, None)) if ref else []


def _is_absolute(uri: str) -> bool:
    try:
        return bool(urlsplit(uri).scheme)
    except ValueError:
        return False
