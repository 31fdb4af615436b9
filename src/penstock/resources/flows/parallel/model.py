"""A Parallel as the controllers see it.

One Channel takes the events. Each branch subscribes its filter to it, whose answers go to the branch's own Channel, or
that Channel itself where there is no filter; the branch's subscriber is subscribed to the branch's Channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.flows.wiring import Wiring

GROUP, KIND, PLURAL = "flows.knative.dev", "Parallel", "parallels"


def ingress_name(parallel: str) -> str:
    """The name of the Channel that takes the events."""
    return f"{parallel}-kn-parallel"


def branch_name(parallel: str, branch: int) -> str:
    """The name of a branch's Channel, and of the Subscription of its subscriber."""
    return f"{parallel}-kn-parallel-{branch}"


def filter_name(parallel: str, branch: int) -> str:
    """The name of the Subscription that leads into a branch."""
    return f"{parallel}-kn-parallel-filter-{branch}"


@dataclass(frozen=True)
class Parallel:
    """What is asked for."""

    name: str
    wiring: Wiring
    branches: list[dict[str, Any]]
    reply: dict[str, Any] | None

    @classmethod
    def read(cls, obj: Obj) -> Parallel:
        """The Parallel behind a stored object."""
        spec = obj.get("spec") or {}
        wiring = Wiring(obj, dict(spec.get("channelTemplate") or {}))
        return cls(obj["metadata"]["name"], wiring, list(spec.get("branches") or []), spec.get("reply") or None)

    def channels(self) -> list[Obj]:
        """The Channel that takes the events, then that of each branch."""
        names = [ingress_name(self.name), *(branch_name(self.name, number) for number in range(len(self.branches)))]
        return [self.wiring.channel(name) for name in names]

    def filter_subscriptions(self) -> list[Obj]:
        """What leads into each branch."""
        return [self._into(number, branch.get("filter")) for number, branch in enumerate(self.branches)]

    def subscriptions(self) -> list[Obj]:
        """What leads from each branch's Channel to its subscriber."""
        return [self._behind(number, branch) for number, branch in enumerate(self.branches)]

    def _into(self, number: int, condition: dict[str, Any] | None) -> Obj:
        branch = self.wiring.to_channel(branch_name(self.name, number))
        subscriber, reply = (condition, branch) if condition else (branch, None)
        return self.wiring.subscription(filter_name(self.name, number), ingress_name(self.name), subscriber, reply)

    def _behind(self, number: int, branch: dict[str, Any]) -> Obj:
        name = branch_name(self.name, number)
        reply = branch.get("reply") or self.reply
        return self.wiring.subscription(name, name, branch.get("subscriber") or {}, reply, branch.get("delivery"))
