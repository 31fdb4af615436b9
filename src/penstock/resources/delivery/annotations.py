"""The annotations `penstock.dev/…` that tune the delivery of a Trigger or a Subscription."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.kube.kinds import Obj
from penstock.resources.admission import annotations_of
from penstock.resources.field_errors import FieldError, FieldErrors, invalid
from penstock.resources.metadata import is_object_name
from penstock.resources.moments import EXPECTED, moment_of
from penstock.timestamps import parse_rfc3339

MAX_IN_FLIGHT = "penstock.dev/max-in-flight"
ORDERING = "penstock.dev/ordering"
PAUSED = "penstock.dev/paused"
START_FROM = "penstock.dev/start-from"
SIGN_WITH = "penstock.dev/sign-with"
CLIENT_CERTIFICATE = "penstock.dev/client-certificate"

_MOST_IN_FLIGHT = 100_000


@dataclass(frozen=True)
class RouteOptions:
    """The options with their types."""

    max_in_flight: int | None = None
    ordering: Literal["unordered", "key"] = "unordered"
    paused: bool = False
    since: float | None = None
    """Unix time of the oldest event asked for; 0: whatever is kept; None: what comes from now on."""
    sign_with: str | None = None
    """The Secret that deliveries are signed with."""
    client_certificate: str | None = None
    """The Secret with the certificate that subscribers are shown."""

    @classmethod
    def read(cls, obj: Obj) -> RouteOptions:
        """The options of a stored object; a value that admission would refuse counts as unset.

        Not so what guards deliveries: a name that no Secret can have is that of a Secret that is missing.
        """
        annotations = annotations_of(obj)
        limit = annotations.get(MAX_IN_FLIGHT, "")
        return cls(
            int(limit) if _is_limit(limit) else None,
            "key" if annotations.get(ORDERING) == "key" else "unordered",
            annotations.get(PAUSED) == "true",
            _since(obj, annotations.get(START_FROM)),
            annotations.get(SIGN_WITH),
            annotations.get(CLIENT_CERTIFICATE),
        )


def check_options(obj: Obj) -> FieldErrors:
    """What is wrong with the annotations."""
    annotations = annotations_of(obj)
    errors: FieldErrors = []
    limit = annotations.get(MAX_IN_FLIGHT)
    if limit is not None and not _is_limit(limit):
        errors.append(_refused(MAX_IN_FLIGHT, limit, f"expected a number from 1 to {_MOST_IN_FLIGHT}"))
    ordering = annotations.get(ORDERING)
    if ordering is not None and ordering not in ("unordered", "key"):
        errors.append(_refused(ORDERING, ordering, "expected either 'unordered' or 'key'"))
    paused = annotations.get(PAUSED)
    if paused is not None and paused not in ("true", "false"):
        errors.append(_refused(PAUSED, paused, "expected either 'true' or 'false'"))
    start = annotations.get(START_FROM)
    if start is not None and moment_of(start, 0.0) is None:
        errors.append(_refused(START_FROM, start, EXPECTED))
    for annotation in (SIGN_WITH, CLIENT_CERTIFICATE):
        secret = annotations.get(annotation)
        if secret is not None and not is_object_name(secret):
            errors.append(_refused(annotation, secret, "expected the name of a Secret in the same namespace"))
    return errors


def _since(obj: Obj, asked: str | None) -> float | None:
    """Durations count back from when the object was made, so that its route begins at the same event whenever that is
    worked out."""
    created = (obj.get("metadata") or {}).get("creationTimestamp")
    if asked is None or not created:
        return None
    return moment_of(asked, parse_rfc3339(str(created)).timestamp())


def _is_limit(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= _MOST_IN_FLIGHT


def _refused(annotation: str, value: str, expected: str) -> FieldError:
    return invalid(value, f"metadata.annotations[{annotation}]", expected)
