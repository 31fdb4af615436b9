"""What controllers find out about every route, be it a Trigger or a Subscription, and the warnings that follow."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.kube.kinds import Obj
from penstock.resources.conditions import ConditionFinding
from penstock.resources.delivery.delivering import DeliveryState, delivering_finding
from penstock.resources.eventpolicy import NOBODY, SenderIdentity
from penstock.resources.replay import NO_PAST, PastObservation, past_findings
from penstock.resources.secrets.uses import NONE as NO_SECRETS
from penstock.resources.secrets.uses import UsedSecrets


@dataclass(frozen=True, kw_only=True)
class RouteObservation:
    """What both kinds have."""

    losses: tuple[str, ...] = ()
    delivery: DeliveryState | None = None
    """How deliveries go; None where nothing is known."""
    paused: bool = False
    identity: SenderIdentity = NOBODY
    past: PastObservation = NO_PAST
    secrets: UsedSecrets = NO_SECRETS

    def warnings(self, obj: Obj) -> list[ConditionFinding]:
        """Conditions of the route `obj` that do not count towards Ready."""
        expiring = self.delivery is not None and self.delivery.expiring
        past = past_findings(obj, self.past, self.losses, expiring=expiring)
        return [*past, *delivering_finding(self.delivery, self.paused)]
