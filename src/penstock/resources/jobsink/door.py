"""Over what a JobSink takes events, and from whom."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.resources.eventpolicy.rules import TargetRules
from penstock.resources.features import Transport


@dataclass(frozen=True)
class JobSinkDoor:
    """The door of one JobSink."""

    transport: Transport = "disabled"
    rules: TargetRules | None = None
    """None: everybody may send."""

    def takes(self, scheme: str) -> bool:
        """Whether events come in by `http` or by `https`."""
        return scheme != ("http" if self.transport == "strict" else "https" if self.transport == "disabled" else "")
