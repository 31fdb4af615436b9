"""The Sequence controller: a Channel for each step, and a Subscription that sends its events to the step and the step's
replies to the next Channel."""

from __future__ import annotations

from dataclasses import replace

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import access_of
from penstock.controllers.reconcilers.parts import PartFailed, Parts, of_another_kind, surplus_parts
from penstock.kube.kinds import SEQUENCE, SUBSCRIPTION, Key, Kind, Obj
from penstock.resources.flow_parts import address_of
from penstock.resources.sequence import Sequence, SequenceObservation, part_name, status_of


class SequenceReconciler:
    """Sequences, whatever kind of channel their template names."""

    kind = SEQUENCE

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            return
        parts = Parts(self._context, (SEQUENCE.kind, key), obj)
        sequence = Sequence.read(obj)
        await parts.remove(of_another_kind(_channels_before(obj), _channel_kind(sequence)))
        seen = await self._ensure(parts, sequence)
        failure = seen.channel_failure or seen.subscription_failure
        if failure is not None:
            self._context.recorder.warning(obj, "InternalError", failure)
        elif len(seen.subscriptions) == len(sequence.steps):
            await self._clear(parts, key, sequence)
        seen = replace(seen, access=access_of(self._context, (SEQUENCE.kind, key), SEQUENCE, obj))
        await self._context.write_status(SEQUENCE, obj, status_of(obj, seen, self._context.now()))

    async def _ensure(self, parts: Parts, sequence: Sequence) -> SequenceObservation:
        channels: list[Obj] = []
        subscriptions: list[Obj] = []
        for number, wanted in enumerate(sequence.channels()):
            try:
                channels.append(await parts.exists(wanted))
            except PartFailed as failed:
                name = wanted["metadata"]["name"]
                why = f"failed to reconcile channel {name} at step {number}: {failed}"
                return SequenceObservation(channels, [], channel_failure=why)
        if not all(map(address_of, channels)):
            # Subscriptions are created once all Channels have an address; their status enqueues the Sequence again.
            return SequenceObservation(channels, [])
        for number, wanted in enumerate(sequence.subscriptions()):
            try:
                subscriptions.append(await parts.ensure(wanted, fixed="channel"))
            except PartFailed as failed:
                why = f"failed to reconcile subscription resource for step: {number} : {failed}"
                return SequenceObservation(channels, subscriptions, subscription_failure=why)
        return SequenceObservation(channels, subscriptions)

    async def _clear(self, parts: Parts, key: Key, sequence: Sequence) -> None:
        # Subscriptions first, so that none refers to a deleted Channel.
        for kind in (SUBSCRIPTION, _channel_kind(sequence)):
            await parts.remove(surplus_parts(parts, kind, key, part_name, len(sequence.steps)))


def _channel_kind(sequence: Sequence) -> Kind:
    return Kind(sequence.wiring.channel_version, sequence.wiring.channel_kind)


def _channels_before(obj: Obj) -> list[Obj]:
    """The Channels that the last status named."""
    return [state.get("channel") or {} for state in (obj.get("status") or {}).get("channelStatuses") or []]
