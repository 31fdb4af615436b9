"""Admission: the plugins that default and validate objects beyond their schema, as they are created and updated.

The generic verbs do not know which kinds have rules of their own; `apiserver.service` passes the plugins in. The text
of a refusal is sent to the client as it is.
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
    """Warnings for the client; plugins append to it."""


class Denied(Exception):
    """The object is refused; the text is the whole message."""


class AdmissionPlugin(Protocol):
    """Defaults and rules beyond the schema."""

    def default(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> Obj:
        """The object with its defaults."""

    def validate(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> None:
        """Raises Denied if the object may not be stored."""


class AdmissionChain:
    """Several plugins in order, or none."""

    def __init__(self, *plugins: AdmissionPlugin) -> None:
        self._plugins = plugins

    def default(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> Obj:
        """The object with the defaults of every plugin."""
        for plugin in self._plugins:
            obj = plugin.default(obj, old, request)
        return obj

    def validate(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> None:
        """Raises Denied as the first plugin that refuses does."""
        for plugin in self._plugins:
            plugin.validate(obj, old, request)
