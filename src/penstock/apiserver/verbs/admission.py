"""The seam at which a kind's own defaults and rules meet the generic verbs.

The server does not know which kinds have some; who composes it hands in a gate. Refusals are for the client to read
as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from penstock.apiserver.kinds.registry import ServedKind
from penstock.kube.kinds import Obj


@dataclass(frozen=True)
class AdmissionRequest:
    """Who does what to an object of which kind."""

    kind: ServedKind
    namespace: str
    user: str
    operation: str
    """`CREATE`, `UPDATE` or `DELETE`."""
    groups: tuple[str, ...] = ()
    """Those of the user."""
    warnings: list[str] = field(default_factory=list)
    """Collects what the client should be warned of."""


class Denied(Exception):  # named after what the client is told
    """The object is refused; the text is the whole message."""


class Gate(Protocol):
    """Defaults and rules beyond the schema."""

    def default(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> Obj:
        """The object with what was left out filled in."""

    def validate(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> None:
        """Raises Denied if the object may not be stored."""


class Gates:
    """Several gates, one behind the other."""

    def __init__(self, *gates: Gate) -> None:
        self._gates = gates

    def default(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> Obj:
        """The object with what every gate fills in."""
        for gate in self._gates:
            obj = gate.default(obj, old, occasion)
        return obj

    def validate(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> None:
        """Raises what the first gate that refuses raises."""
        for gate in self._gates:
            gate.validate(obj, old, occasion)


class OpenGate:
    """No rules beyond the schema."""

    def default(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> Obj:
        """The object as it is."""
        return obj

    def validate(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> None:
        """Every object passes."""
