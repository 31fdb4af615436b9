"""The reconcilers of Jobs, CronJobs, Deployments, ReplicaSets and EndpointSlices: they execute the decisions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from penstock.controllers.reconciler import Reconciler, ReconcilerContext, ReconcilerWorkers
from penstock.controllers.workloads import cronjobs, deployments, endpointslices, jobs
from penstock.controllers.workloads.owned import controller_key, is_terminating, owned_by, pod_of
from penstock.kube.errors import Conflict, KubeError, NotFound
from penstock.kube.kinds import (
    CRON_JOB,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    ENDPOINTS,
    JOB,
    POD,
    REPLICA_SET,
    Key,
    Kind,
    Obj,
    key_of,
)

Clock = Callable[[], datetime]


def now() -> datetime:
    """The time."""
    return datetime.now(UTC)


class WorkloadReconciler:
    """What the reconcilers have in common."""

    kind: Kind
    owned: Kind

    def __init__(self, context: ReconcilerContext, workers: ReconcilerWorkers, clock: Clock = now) -> None:
        self._context, self._workers, self._clock = context, workers, clock

    def _owned(self, obj: Obj) -> list[Obj]:
        """The objects that it controls. Raises NotYetKnown: those that are not listed yet would be created again."""
        self._context.tracker.look((self.kind.kind, key_of(obj)), self.owned, key_of(obj))
        return owned_by(obj, self._context.tracker.informer(self.owned).all())

    async def _create(self, owner: Obj, kind: Kind, obj: Obj) -> None:
        """Creates the object unless it exists, and records an Event."""
        try:
            await self._context.create(kind, obj)
        except Conflict:
            return
        except KubeError as error:
            self._context.recorder.warning(owner, "FailedCreate", f"Error creating: {error}")
            raise
        name = obj["metadata"]["name"]
        if kind == POD:
            self._context.recorder.normal(owner, "SuccessfulCreate", f"Created pod: {name}")

    async def _delete(self, owner: Obj, kind: Kind, objects: Iterable[Obj]) -> None:
        for obj in objects:
            if is_terminating(obj):
                continue
            with contextlib.suppress(NotFound):
                await self._context.api.delete(kind, key_of(obj))
            if kind == POD:
                self._context.recorder.normal(owner, "SuccessfulDelete", f"Deleted pod: {obj['metadata']['name']}")

    def _record(self, obj: Obj, events: Iterable[tuple[str, str, str]]) -> None:
        for kind, reason, message in events:
            (self._context.recorder.warning if kind == "Warning" else self._context.recorder.normal)(
                obj, reason, message
            )

    def _enqueue_later(self, obj: Obj, seconds: float | None) -> None:
        self._workers.enqueue_later((self.kind.kind, key_of(obj)), seconds)


class JobReconciler(WorkloadReconciler):
    """Jobs."""

    kind, owned = JOB, POD

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            return
        decision = jobs.decide(obj, self._owned(obj), self._clock())
        if decision.expired:
            await self._delete(obj, JOB, [obj])
            return
        # Before Pods are created or deleted: the counts of finished Pods must be stored first.
        await self._context.write_status(JOB, obj, decision.status)
        self._record(obj, decision.events)
        await self._delete(obj, POD, decision.delete)
        for pod in self._pods(obj, decision.create):
            await self._create(obj, POD, pod)
        self._enqueue_later(obj, decision.again)

    def _pods(self, job: Obj, create: int | tuple[int, ...]) -> Iterable[Obj]:
        template = job["spec"]["template"]
        if isinstance(create, int):
            return [pod_of(template, job, JOB) for _ in range(create)]
        return [jobs.indexed_pod(pod_of(template, job, JOB), job["metadata"]["name"], index) for index in create]


class ReplicaSetReconciler(WorkloadReconciler):
    """ReplicaSets."""

    kind, owned = REPLICA_SET, POD

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            return
        decision = deployments.decide_replicaset(obj, self._owned(obj), self._clock())
        await self._delete(obj, POD, decision.delete)
        for _ in range(decision.create):
            await self._create(obj, POD, pod_of(obj["spec"]["template"], obj, REPLICA_SET))
        await self._context.write_status(REPLICA_SET, obj, decision.status)
        self._enqueue_later(obj, decision.again)


class DeploymentReconciler(WorkloadReconciler):
    """Deployments."""

    kind, owned = DEPLOYMENT, REPLICA_SET

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            return
        decision = deployments.decide(obj, self._owned(obj), self._clock())
        if decision.create is not None:
            await self._create(obj, REPLICA_SET, decision.create)
            self._record(obj, [_scaled(decision.create, int(decision.create["spec"]["replicas"]), 0)])
        if decision.revise is not None:
            await self._context.write_spec(REPLICA_SET, decision.revise)
        else:
            await self._scale(obj, decision.scale)
        await self._delete(obj, REPLICA_SET, decision.delete)
        await self._context.write_status(DEPLOYMENT, obj, decision.status)
        await self._set_revision(key, decision.revision)
        self._enqueue_later(obj, decision.again)

    async def _scale(self, obj: Obj, changes: Iterable[tuple[Obj, int]]) -> None:
        for replicaset, replicas in changes:
            before = int(replicaset["spec"].get("replicas", 1))
            spec = {**replicaset["spec"], "replicas": replicas}
            await self._context.write_spec(REPLICA_SET, {**replicaset, "spec": spec})
            self._record(obj, [_scaled(replicaset, replicas, before)])

    async def _set_revision(self, key: Key, revision: str) -> None:
        """Sets the annotation with the present revision of the Deployment."""
        current = self._context.tracker.informer(DEPLOYMENT).get(key)
        if not revision or current is None:
            return
        metadata = current["metadata"]
        annotations = metadata.get("annotations") or {}
        if annotations.get(deployments.REVISION) != revision:
            changed = {**annotations, deployments.REVISION: revision}
            await self._context.write_spec(DEPLOYMENT, {**current, "metadata": {**metadata, "annotations": changed}})


def _scaled(replicaset: Obj, replicas: int, before: int) -> tuple[str, str, str]:
    direction = "up" if replicas > before else "down"
    name = replicaset["metadata"]["name"]
    return "Normal", "ScalingReplicaSet", f"Scaled {direction} replica set {name} from {before} to {replicas}"


class CronJobReconciler(WorkloadReconciler):
    """CronJobs."""

    kind, owned = CRON_JOB, JOB

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            return
        decision = cronjobs.decide(obj, self._owned(obj), self._clock())
        await self._delete(obj, JOB, decision.replace)
        if decision.create is not None:
            # Before the status: if `lastScheduleTime` were stored without its Job, that run would be missed.
            await self._create(obj, JOB, decision.create)
        self._record(obj, decision.events)
        await self._delete(obj, JOB, decision.delete)
        await self._context.write_status(CRON_JOB, obj, decision.status)
        self._enqueue_later(obj, decision.again)


class EndpointSliceReconciler(WorkloadReconciler):
    """EndpointSlices beside every Endpoints object."""

    kind, owned = ENDPOINTS, ENDPOINT_SLICE

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            return
        held = {one["metadata"]["name"]: one for one in self._owned(obj)}
        for wanted in endpointslices.slices_of(obj):
            found = held.pop(wanted["metadata"]["name"], None)
            if found is None:
                await self._create(obj, ENDPOINT_SLICE, wanted)
            elif not endpointslices.same_slice(found, wanted):
                changed = {**found, **{field: wanted[field] for field in ("endpoints", "ports")}}
                await self._context.write_spec(ENDPOINT_SLICE, changed)
        await self._delete(obj, ENDPOINT_SLICE, held.values())


_Concrete = JobReconciler | ReplicaSetReconciler | DeploymentReconciler | CronJobReconciler | EndpointSliceReconciler


def workload_reconcilers(context: ReconcilerContext, workers: ReconcilerWorkers) -> list[Reconciler]:
    """All of them; an object is reconciled again when one that it controls changes."""
    reconcilers: list[_Concrete] = [
        JobReconciler(context, workers),
        ReplicaSetReconciler(context, workers),
        DeploymentReconciler(context, workers),
        CronJobReconciler(context, workers),
        EndpointSliceReconciler(context, workers),
    ]
    for reconciler in reconcilers:
        _listen(context, workers, reconciler.kind, reconciler.owned)
    return list(reconcilers)


def _listen(context: ReconcilerContext, workers: ReconcilerWorkers, kind: Kind, owned: Kind) -> None:
    owners: dict[Key, Key] = {}

    def announce(key: Key, obj: Obj | None) -> None:
        # A deleted object is not passed on with its owner reference, so the owner is remembered.
        owner = controller_key(obj, kind) if obj is not None else None
        owner = owner or owners.pop(key, None)
        if owner is not None:
            if obj is not None:
                owners[key] = owner
            workers.enqueue((kind.kind, owner))

    context.tracker.informer(owned).listen(announce)
