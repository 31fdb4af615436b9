"""The EventPolicy controller: resolves the senders of a policy. The reconcilers of its targets read the policy
themselves."""

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

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is not None:
            seen = self._observe((EVENT_POLICY.kind, key), obj)
            await self._context.write_status(EVENT_POLICY, obj, status_of(obj, seen, self._context.now()))

    def _observe(self, me: Observer, obj: Obj) -> EventPolicyObservation:
        if not features.enabled_by(features.OIDC, features_of(self._context, me)):
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
        key = Key(str(reference.get("namespace") or ""), str(reference.get("name") or ""))
        found = self._context.tracker.look(me, kind, key)
        if found is None:
            raise not_found(reference, self._context.tracker.why_missing(kind, key.name))
        return subjects_of(reference, found)
