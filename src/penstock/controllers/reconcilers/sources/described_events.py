"""EventTypes of what sources send: made when a source is ready to, changed with its sink, gone with what it no longer
sends."""

from __future__ import annotations

from typing import Any

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.parts import PartFailed, Parts
from penstock.controllers.tracker import Observer
from penstock.kube.kinds import EVENT_TYPE, Key, Obj
from penstock.resources.sources import descriptions, event_types_of, name_of


class DescribedEvents:
    """The EventTypes of all sources of one kind."""

    def __init__(self, world: ReconcilerContext, kind: str) -> None:
        self._world, self._kind = world, kind

    async def ensure(self, me: Observer, obj: Obj, status: dict[str, Any], source: str) -> None:
        """Has the EventTypes that the status asks for, and no others of this source. Nothing waits for them: a server
        that refuses them keeps no source from sending."""
        parts, described = Parts(self._world, me, obj), descriptions(self._kind)
        wanted = event_types_of(obj, status, described)
        unwanted = {name_of(obj, kind, source) for kind in described} - {one["metadata"]["name"] for one in wanted}
        try:
            await parts.remove((EVENT_TYPE, Key(me[1].namespace, name)) for name in sorted(unwanted))
            for one in wanted:
                await parts.ensure(one, fixed="reference")
        except PartFailed as error:
            self._world.recorder.warning(obj, "EventTypeFailed", str(error))
