"""The Replay controller: publishes a route like that of a Trigger or Subscription, or one to a sink, and withdraws it.

The dispatcher replays the events of the route and reports its progress. The status says that the Replay has begun
before the route is published, and that it has ended before the route is withdrawn. So neither happens twice.
"""

from __future__ import annotations

import time
from dataclasses import replace

from penstock.contract.routes import Route, Target, key_of
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.destinations import resolve, resolve_optional
from penstock.controllers.routes.past import progress_of
from penstock.controllers.routes.route_records import replay_route, replay_to_sink, used_secrets
from penstock.controllers.tracker import Observer
from penstock.kube.kinds import BROKER, CHANNEL, IN_MEMORY_CHANNEL, REPLAY, SUBSCRIPTION, TRIGGER, Key, Kind, Obj
from penstock.resources.delivery import RouteOptions
from penstock.resources.destinations import KReference, Unresolved
from penstock.resources.replay import (
    ReplayFailure,
    ReplayObservation,
    ReplaySpec,
    has_begun,
    is_over,
    status_of,
)
from penstock.runtime.times import parse_rfc3339

KINDS = {kind.kind: kind for kind in (TRIGGER, SUBSCRIPTION, BROKER, CHANNEL, IN_MEMORY_CHANNEL)}


class ReferenceGone(Exception):  # reported in the status
    """What the Replay refers to does not exist."""

    def __init__(self, kind: Kind, name: str) -> None:
        super().__init__(f'{kind.qualified_plural} "{name}" not found')


class ReferenceNotReady(Exception):  # reported in the status
    """What the Replay refers to is not ready yet."""


class ReplayReconciler:
    """Replays."""

    kind = REPLAY

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        context, me = self._context, (REPLAY.kind, key)
        if obj is None or is_over(obj):
            context.publisher.claim(me, [])
            return
        spec = ReplaySpec.read(obj)
        held = context.publisher.held(f"route/{spec.identity.uid}")
        kept = held if isinstance(held, Route) else None
        try:
            if kept is None and spec.since > time.time():
                message = "`from` is in the future. A Replay delivers events from before it began."
                await self._end(me, obj, spec, ReplayFailure("WindowInFuture", message))
                return
            route = self._route(me, spec)
        except ReferenceGone as gone:
            if has_begun(obj):
                await self._end(me, obj, spec, ReplayFailure("TargetGone", str(gone)))
            else:
                await self._wait(me, obj, spec, kept, ReplayFailure("TargetNotFound", str(gone)))
            return
        except ReferenceNotReady as reason:
            await self._wait(me, obj, spec, kept, ReplayFailure("TargetNotReady", str(reason)))
            return
        if not has_begun(obj):
            # The watch delivers the changed object, and the route is published then.
            await context.write_status(REPLAY, obj, status_of(obj, ReplayObservation(begun=True), context.now()))
            return
        problems = {one.problem for one in context.dataplane.replayed(spec.identity.uid).values() if one.problem}
        if problems:
            await self._end(me, obj, spec, ReplayFailure("ReplayFailed", f"It cannot continue: {min(problems)}"))
            return
        context.publisher.claim(me, [route])
        seen = self._observe(spec, route)
        await context.write_status(REPLAY, obj, status_of(obj, seen, context.now()))
        if seen.complete:
            context.publisher.claim(me, [])
            self._record_end(obj, seen)

    async def _end(self, me: Observer, obj: Obj, spec: ReplaySpec, failure: ReplayFailure) -> None:
        """Ends the Replay with a failure: the status says so before the route is withdrawn."""
        held = self._context.publisher.held(f"route/{spec.identity.uid}")
        partitions = progress_of(self._context.dataplane, held) if isinstance(held, Route) else []
        seen = ReplayObservation(None, failure, partitions, spec.dry_run, has_begun(obj))
        await self._context.write_status(REPLAY, obj, status_of(obj, seen, self._context.now()))
        self._context.publisher.claim(me, [])
        self._context.recorder.warning(obj, failure.reason, failure.message)

    async def _wait(self, me: Observer, obj: Obj, spec: ReplaySpec, kept: Route | None, why: ReplayFailure) -> None:
        """Waits for what it refers to. A Replay that has begun continues as it is."""
        self._context.publisher.claim(me, [] if kept is None else [kept], expected=[f"route/{spec.identity.uid}"])
        partitions = [] if kept is None else progress_of(self._context.dataplane, kept)
        seen = ReplayObservation(why, None, partitions, spec.dry_run, has_begun(obj))
        await self._context.write_status(REPLAY, obj, status_of(obj, seen, self._context.now()))

    def _observe(self, spec: ReplaySpec, route: Route) -> ReplayObservation:
        held = self._context.publisher.held(key_of(route))
        partitions = progress_of(self._context.dataplane, held) if isinstance(held, Route) else []
        not_kept = self._context.publisher.take_shortfall(key_of(route)) or ""
        return ReplayObservation(None, None, partitions, spec.dry_run, True, not_kept)

    def _record_end(self, obj: Obj, seen: ReplayObservation) -> None:
        counted = sum(one.counted for one in seen.partitions)
        failed = sum(one.failed for one in seen.partitions)
        message = f"{counted} events" + (f", {failed} of them could not be delivered" if failed else "")
        self._context.recorder.normal(obj, "ReplayCompleted", message)

    def _route(self, me: Observer, spec: ReplaySpec) -> Route:
        """The route of the Replay. Raises ReferenceGone or ReferenceNotReady."""
        if spec.target is not None:
            found = self._found(me, spec.target)
            held = self._context.publisher.held(f"route/{found['metadata']['uid']}")
            if not isinstance(held, Route):
                raise ReferenceNotReady(f"The {spec.target.kind} {spec.target.name} is not ready: it has no route.")
            options = RouteOptions.read(found)
            first = held.subscriber or held.reply
            url = None if first is None else first.url
            secrets = used_secrets(self._context.tracker, me, spec.identity.namespace, options, url)
            return replay_route(replace(spec, since=max(spec.since, _reaches_back_to(found))), held, secrets)
        if spec.source is None:
            raise ReferenceNotReady("The spec has neither a target nor a source.")
        namespace, lookup = spec.identity.namespace, self._context.tracker.lookup(me)
        target = self._target(me, spec.source)
        sink = resolve(spec.sink, namespace, lookup)
        dead_letter = resolve_optional(spec.delivery.get("deadLetterSink"), namespace, lookup)
        if isinstance(sink, Unresolved):
            raise ReferenceNotReady(f"The sink cannot be resolved: {sink.message}")
        if isinstance(dead_letter, Unresolved):
            raise ReferenceNotReady(f"The dead letter sink cannot be resolved: {dead_letter.message}")
        return replay_to_sink(spec, target, sink, dead_letter)

    def _target(self, me: Observer, source: KReference) -> str:
        """uid of the target for events to a Broker or channel; for a Channel it is its backing channel."""
        reference = source
        if source.kind == CHANNEL.kind:
            self._found(me, source)
            reference = KReference(IN_MEMORY_CHANNEL.api_version, IN_MEMORY_CHANNEL.kind, source.name, source.namespace)
        uid = str(self._found(me, reference)["metadata"]["uid"])
        if not isinstance(self._context.publisher.held(f"target/{uid}"), Target):
            raise ReferenceNotReady(f"The {source.kind} {source.name} is not ready, or not served here.")
        return uid

    def _found(self, me: Observer, reference: KReference) -> Obj:
        kind = KINDS[reference.kind]
        found = self._context.tracker.look(me, kind, Key(reference.namespace, reference.name))
        if found is None or found["metadata"].get("deletionTimestamp"):
            raise ReferenceGone(kind, reference.name)
        return found


def _reaches_back_to(route: Obj) -> float:
    """Unix time of the oldest event that a Replay of this Trigger or Subscription may deliver; 0: all that are kept.

    Where its Broker or channel is in another namespace, that is the time of its own first event. The user who created
    it had the right to those (`knsubscribe`); the user who creates the Replay may not have it.
    """
    spec, metadata = route.get("spec") or {}, route["metadata"]
    origin = KReference.read(spec.get("brokerRef") or spec.get("channel") or {}, metadata["namespace"])
    if origin.namespace == metadata["namespace"]:
        return 0.0
    asked = RouteOptions.read(route).since
    return parse_rfc3339(str(metadata["creationTimestamp"])).timestamp() if asked is None else asked
