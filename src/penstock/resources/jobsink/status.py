"""The status of a JobSink."""

from __future__ import annotations

from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import conclude, true
from penstock.resources.eventpolicy.access import OPEN
from penstock.resources.jobsink.model import selector_of
from penstock.resources.metadata import Identity


def status_of(obj: Obj, url: str, now: str) -> dict[str, Any]:
    """The JobSink's status: it takes events as soon as it is there."""
    identity = Identity.read(obj)
    previous = (obj.get("status") or {}).get("conditions") or []
    return {
        "observedGeneration": identity.generation,
        "conditions": conclude(previous, [true("Addressable"), OPEN.finding()], now),
        "address": {"name": "http", "url": url},
        "job": {"selector": selector_of(identity.name)},
    }
