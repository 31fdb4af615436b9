"""The EventPolicy controller: finds out whom a policy means. Those it applies to look at it by themselves."""

from __future__ import annotations

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.configuration import features_of
from penstock.controllers.tracker import Observer
from penstock.kube.kinds import EVENT_POLICY, Key, Kind, Obj
from penstock.resources import features
from penstock.resources.eventpolicy import (
    EventPolicyObservation,
    NoSubjects,
    not_found,
    status_of,
    subjects_of,
)


class EventPolicyReconciler:
    """EventPolicies."""

    kind = EVENT_POLICY

    def __init__(self, world: ReconcilerContext) -> None:
        self._world = world

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is not None:
            seen = self._observe((EVENT_POLICY.kind, key), obj)
            await self._world.write_status(EVENT_POLICY, obj, status_of(obj, seen, self._world.now()))

    def _observe(self, me: Observer, obj: Obj) -> EventPolicyObservation:
        if not features.enabled_by(features.OIDC, features_of(self._world, me)):
            return EventPolicyObservation(enabled=False)
        subjects: list[str] = []
        try:
            for entry in (obj.get("spec") or {}).get("from") or ():
                subjects += self._resolve(me, entry)
        except NoSubjects as problem:
            return EventPolicyObservation(enabled=True, problem=str(problem))
        return EventPolicyObservation(enabled=True, subjects=tuple(subjects))

    def _resolve(self, me: Observer, entry: Obj) -> list[str]:
        reference = entry.get("ref")
        if not reference:
            return [str(entry["sub"])] if entry.get("sub") else []
        kind = Kind(str(reference.get("apiVersion") or ""), str(reference.get("kind") or ""))
        place = Key(str(reference.get("namespace") or ""), str(reference.get("name") or ""))
        found = self._world.tracker.look(me, kind, place)
        if found is None:
            raise not_found(reference, self._world.tracker.why_missing(kind, place.name))
        return subjects_of(reference, found)
