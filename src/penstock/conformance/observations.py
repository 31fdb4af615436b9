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
    event: Mapping[str, Any]
    headers: Mapping[str, list[str]]
    observer: str
    text: str
    """The message as it was, for evidence."""

    def header(self, name: str) -> str | None:
        """The first value of a request header, whatever its spelling."""
        return next((values[0] for key, values in self.headers.items() if key.lower() == name.lower()), None)


def read(messages: Iterable[str]) -> list[Observation]:
    """The observations in the order in which they were made. Messages of other kinds are passed over."""
    found = [observation for observation in map(_observation, messages) if observation is not None]
    return sorted(found, key=lambda observation: observation.at)


def _observation(message: str) -> Observation | None:
    try:
        fields = json.loads(message)
        return Observation(
            kind=fields["kind"],
            sequence=int(fields["sequence"]),
            at=parse_rfc3339(fields["time"]).timestamp(),
            event=fields.get("event") or {},
            headers=fields.get("httpHeaders") or {},
            observer=fields.get("observer", ""),
            text=message,
        )
    except (ValueError, KeyError, TypeError):
        return None
