"""The SinkBinding controller: puts the sink, the trust bundles and a token into the Pod templates of its subjects, and
takes them out when it goes.

While the sink cannot be found, subjects keep what they have: their programs go on, and nobody restarts them twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.destinations import resolve
from penstock.controllers.reconcilers.sources.bundle_copies import BundleCopies
from penstock.controllers.reconcilers.sources.token_secrets import Ask, TokenSecrets
from penstock.controllers.tracker import Observer
from penstock.kube.errors import Conflict, KubeError, NotFound, Unavailable
from penstock.kube.kinds import JOB, SINK_BINDING, Key, Kind, Obj, key_of
from penstock.resources.destinations.resolution import ResolvedAddress
from penstock.resources.sinkbinding import (
    FINALIZER,
    BindingObservation,
    BindingProblem,
    Environment,
    SinkBinding,
    Subject,
    bound,
    bundles_in,
    environment_of,
    status_of,
    token_in,
    unbound,
)


class SinkBindingReconciler:
    """SinkBindings of any kind of object with a Pod template."""

    kind = SINK_BINDING

    def __init__(
        self, world: ReconcilerContext, enqueue: Callable[[Observer], None], trusted: Callable[[], str], ask: Ask
    ) -> None:
        """`trusted` are the certificates of all trust bundles, in PEM; `ask` gives tokens."""
        self._world, self._enqueue = world, enqueue
        self._bundles = BundleCopies(world, enqueue, trusted)
        self._tokens = TokenSecrets(world, ask)
        self._watched: set[Kind] = set()

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            leaving = self._world.tracker.informer(SINK_BINDING).get(key)
            if leaving is not None and FINALIZER in (leaving["metadata"].get("finalizers") or []):
                await self._finish(key, leaving)
            return
        world, binding = self._world, SinkBinding.read(obj)
        if FINALIZER not in (obj["metadata"].get("finalizers") or []):
            finalizers = [*(obj["metadata"].get("finalizers") or []), FINALIZER]
            await world.write_spec(SINK_BINDING, {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}})
            obj = world.tracker.informer(SINK_BINDING).get(key) or obj
        sink = resolve(binding.sink, key.namespace, world.tracker.lookup((SINK_BINDING.kind, key)))
        subjects = self._subjects(key, binding.subject)
        problem = subjects if isinstance(subjects, BindingProblem) else None
        bundles, missing = await self._bundles.ensure(obj)
        credentials = await self._tokens.ensure((SINK_BINDING.kind, key), obj, sink)
        if not isinstance(subjects, BindingProblem) and isinstance(sink, ResolvedAddress):
            environment = environment_of(sink, binding.overrides)
            changes = [(one, _bound(one, environment, bundles, credentials.secret)) for one in subjects]
            problem = await self._write(changes)
        # Only now: a Pod that starts meanwhile would wait for a volume that is not there any more.
        await self._bundles.remove_others(obj)
        seen = BindingObservation(sink, problem, missing, credentials)
        await world.write_status(SINK_BINDING, obj, status_of(obj, seen, world.now()))

    async def _finish(self, key: Key, obj: Obj) -> None:
        """Takes back what was done, and lets the SinkBinding go."""
        subjects = self._subjects(key, SinkBinding.read(obj).subject)
        if not isinstance(subjects, BindingProblem):
            await self._write([(one, unbound(one)) for one in subjects])
        finalizers = [one for one in obj["metadata"]["finalizers"] if one != FINALIZER]
        with contextlib.suppress(NotFound):
            changed = {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}}
            await self._world.write_spec(SINK_BINDING, changed)

    def _subjects(self, key: Key, subject: Subject) -> list[Obj] | BindingProblem:
        """The objects to bind; the SinkBinding is enqueued when they change, and when others become such."""
        world, kind = self._world, Kind(subject.api_version, subject.kind)
        found = world.tracker.look((SINK_BINDING.kind, key), kind, Key(subject.namespace, subject.name))
        informer = world.tracker.informer(kind)
        if informer.unserved is not None:
            return BindingProblem("SubjectUnavailable", informer.unserved)
        if subject.name:
            missing = BindingProblem("SubjectMissing", world.tracker.why_missing(kind, subject.name))
            return missing if found is None or found["metadata"].get("deletionTimestamp") else [found]
        self._watch(kind)
        return [one for one in informer.all() if subject.has(one) and not one["metadata"].get("deletionTimestamp")]

    def _watch(self, kind: Kind) -> None:
        """Has the SinkBindings that choose by labels looked at when an object of the kind changes."""
        if kind in self._watched:
            return
        self._watched.add(kind)
        bindings = self._world.tracker.informer(SINK_BINDING)

        def announce(key: Key, _obj: Obj | None) -> None:
            for one in bindings.all():
                subject = SinkBinding.read(one).subject
                if not subject.name and (subject.namespace, subject.api_version, subject.kind) == (
                    key.namespace,
                    kind.api_version,
                    kind.kind,
                ):
                    self._enqueue((SINK_BINDING.kind, key_of(one)))

        self._world.tracker.informer(kind).listen(announce)

    async def _write(self, changes: list[tuple[Obj, Obj]]) -> BindingProblem | None:
        """Stores what has changed; why it cannot, where the server says so."""
        for before, after in changes:
            if after is before:
                continue
            try:
                await self._world.write_spec(Kind(before["apiVersion"], before["kind"]), after)
            except NotFound:
                continue
            except (Unavailable, Conflict):
                raise
            except KubeError as error:
                return BindingProblem("BindingFailed", f"failed binding subject {before['metadata']['name']}: {error}")
        return None


def _bound(subject: Obj, environment: Environment, bundles: list[str], token: str) -> Obj:
    """The subject with all that it is to have. The template of a Job never changes: it mounts what it was made with,
    which is no reason to call the SinkBinding failed."""
    if (subject["apiVersion"], subject["kind"]) == JOB:
        bundles, token = bundles_in(subject), token_in(subject)
    return bound(subject, environment, bundles, token)
