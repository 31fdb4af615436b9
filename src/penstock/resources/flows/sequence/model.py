"""A Sequence as the controllers see it: a Channel in front of each step, and a Subscription that joins the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.flows.wiring import Wiring, destination_of

GROUP, KIND, PLURAL = "flows.knative.dev", "Sequence", "sequences"


def part_name(sequence: str, step: int) -> str:
    """The name of the Channel in front of a step, and of the Subscription behind it."""
    return f"{sequence}-kn-sequence-{step}"


@dataclass(frozen=True)
class Sequence:
    """What is asked for."""

    name: str
    wiring: Wiring
    steps: list[dict[str, Any]]
    reply: dict[str, Any] | None

    @classmethod
    def read(cls, obj: Obj) -> Sequence:
        """The Sequence behind a stored object."""
        spec = obj.get("spec") or {}
        wiring = Wiring(obj, dict(spec.get("channelTemplate") or {}))
        return cls(obj["metadata"]["name"], wiring, list(spec.get("steps") or []), spec.get("reply") or None)

    def channels(self) -> list[Obj]:
        """The Channel in front of each step."""
        return [self.wiring.channel(part_name(self.name, step)) for step in range(len(self.steps))]

    def subscriptions(self) -> list[Obj]:
        """The Subscription of each step; its answers go to the next Channel, those of the last to the reply."""
        return [self._subscription(number, step) for number, step in enumerate(self.steps)]

    def _subscription(self, number: int, step: dict[str, Any]) -> Obj:
        last = number == len(self.steps) - 1
        reply = self.reply if last else self.wiring.to_channel(part_name(self.name, number + 1))
        name = part_name(self.name, number)
        return self.wiring.subscription(name, name, destination_of(step), reply, step.get("delivery"))
