"""The Parallel controller: a Channel that accepts the events, and for each branch a Channel with a Subscription for its
filter and one for its subscriber."""

from __future__ import annotations

from dataclasses import replace

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import access_of
from penstock.controllers.reconcilers.parts import PartFailed, Parts, of_another_kind, surplus_parts
from penstock.kube.kinds import PARALLEL, SUBSCRIPTION, Key, Kind, Obj
from penstock.resources.flow_parts import address_of
from penstock.resources.parallel import Parallel, ParallelObservation, branch_name, filter_name, status_of


class ParallelReconciler:
    """Parallels, whatever kind of channel their template names."""

    kind = PARALLEL

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            return
        parts = Parts(self._context, (PARALLEL.kind, key), obj)
        parallel = Parallel.read(obj)
        await parts.remove(of_another_kind(_channels_before(obj), _channel_kind(parallel)))
        seen = await self._ensure(parts, parallel)
        failure = seen.channel_failure or seen.subscription_failure
        if failure is not None:
            self._context.recorder.warning(obj, "InternalError", failure)
        elif len(seen.subscriptions) == len(parallel.branches):
            await self._clear(parts, key, parallel)
        seen = replace(seen, access=access_of(self._context, (PARALLEL.kind, key), PARALLEL, obj))
        await self._context.write_status(PARALLEL, obj, status_of(obj, seen, self._context.now()))

    async def _ensure(self, parts: Parts, parallel: Parallel) -> ParallelObservation:
        channels: list[Obj] = []
        into: list[Obj] = []
        behind: list[Obj] = []
        for number, wanted in enumerate(parallel.channels(), start=-1):
            try:
                channels.append(await parts.exists(wanted))
            except PartFailed as failed:
                name = wanted["metadata"]["name"]
                why = f"failed to reconcile channel {name} at step {number}: {failed}"
                return ParallelObservation(channels, [], [], channel_failure=why)
        if not all(map(address_of, channels)):
            # Subscriptions are created once all Channels have an address; their status enqueues the Parallel again.
            return ParallelObservation(channels, [], [])
        pairs = zip(parallel.filter_subscriptions(), parallel.subscriptions(), strict=True)
        for number, (condition, subscription) in enumerate(pairs):
            try:
                into.append(await parts.ensure(condition, fixed="channel"))
                behind.append(await parts.ensure(subscription, fixed="channel"))
            except PartFailed as failed:
                why = f"failed to reconcile Subscription Objects for branch: {number} : {failed}"
                return ParallelObservation(channels, into, behind, subscription_failure=why)
        return ParallelObservation(channels, into, behind)

    async def _clear(self, parts: Parts, key: Key, parallel: Parallel) -> None:
        channels = _channel_kind(parallel)
        # Subscriptions first, so that none refers to a deleted Channel.
        for kind, name in ((SUBSCRIPTION, filter_name), (SUBSCRIPTION, branch_name), (channels, branch_name)):
            await parts.remove(surplus_parts(parts, kind, key, name, len(parallel.branches)))


def _channel_kind(parallel: Parallel) -> Kind:
    return Kind(parallel.wiring.channel_version, parallel.wiring.channel_kind)


def _channels_before(obj: Obj) -> list[Obj]:
    """The Channels that the last status named."""
    status = obj.get("status") or {}
    states = [status.get("ingressChannelStatus") or {}]
    states += [branch.get("filterChannelStatus") or {} for branch in status.get("branchStatuses") or []]
    return [state["channel"] for state in states if state.get("channel")]
