"""What the sinks reported: Kubernetes Events whose message is the JSON of an observation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.timestamps import parse_rfc3339


@dataclass(frozen=True)
class Observation:
    """One report of a sink."""

    kind: str
    sequence: int
    at: float
    """Unix time in seconds."""
    fields: Mapping[str, Any]
    """The whole report."""
    text: str
    """The message as it was, for evidence."""

    @property
    def headers(self) -> Mapping[str, list[str]]:
        """Headers of the request, in Go's spelling."""
        headers: Mapping[str, list[str]] = self.fields.get("httpHeaders") or {}
        return headers


def read(messages: Iterable[str]) -> list[Observation]:
    """The observations in the order in which they were made. Messages of other kinds are passed over."""
    found = [observation for observation in map(_observation, messages) if observation is not None]
    return sorted(found, key=lambda observation: observation.at)


def _observation(message: str) -> Observation | None:
    try:
        fields = json.loads(message)
        at = parse_rfc3339(fields["time"]).timestamp()
        return Observation(fields["kind"], int(fields["sequence"]), at, fields, message)
    except (ValueError, KeyError, TypeError):
        return None
