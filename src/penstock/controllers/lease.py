"""A claim that is decided by a Lease of coordination.k8s.io: for roles that have a cluster's API.

The rules are those of Kubernetes' own components: the holder renews, one that stands by takes the Lease when it has
seen no change of it for the time that the Lease itself names, on its own clock. Every write names the version it was
read at, so that of two that take it at once one is refused. One that cannot renew stops before that time is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from penstock.kube.client import Client
from penstock.kube.config import read_config
from penstock.kube.errors import Conflict, Forbidden, KubeError, NotFound
from penstock.kube.kinds import LEASE, Key, Obj
from penstock.observability.logs import describe
from penstock.runtime.tasks import Failed, OwnedThread
from penstock.runtime.times import now
from penstock.settings import Settings

log = structlog.get_logger()

LEASE_SECONDS = 12
GIVE_UP_SECONDS = 10.0
RENEW_SECONDS = 2.0
LOOK_SECONDS = 1.0
DEADLINE_LOOK_SECONDS = 0.25
REQUEST_SECONDS = 3.0


class MayNot(RuntimeError):
    """The API does not let this process use the Lease: waiting will not change that."""


@dataclass
class SeenLease:
    """The Lease as one that stands by has seen it. Pure: time is handed in."""

    lease: Obj | None = None
    since: float = field(default=0.0)
    """When it was first seen as it is."""

    def look(self, lease: Obj | None, at: float) -> None:
        """Takes note of the Lease as it is."""
        if self.lease is None or lease is None or _spec(lease) != _spec(self.lease):
            self.since = at
        self.lease = lease

    def may_take(self, instance: str, at: float) -> bool:
        """Whether nobody has it, one of this name had it, or the one that has it must have stopped."""
        spec = _spec(self.lease)
        if spec.get("holderIdentity") in (None, "", instance):
            return True
        return at - self.since >= max(float(spec.get("leaseDurationSeconds") or 0), LEASE_SECONDS)


def taken(lease: Obj | None, name: str, namespace: str, holder: str, moment: str) -> Obj:
    """The Lease as the one that takes it writes it."""
    before = _spec(lease)
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": LEASE_SECONDS,
        "acquireTime": moment,
        "renewTime": moment,
        "leaseTransitions": int(before.get("leaseTransitions") or 0) + (1 if before else 0),
    }
    metadata = {"name": name, "namespace": namespace} if lease is None else lease["metadata"]
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}


def renewed(lease: Obj, moment: str) -> Obj:
    """The Lease as the holder renews it."""
    return {**lease, "spec": {**_spec(lease), "renewTime": moment}}


def released(lease: Obj, moment: str) -> Obj:
    """The Lease as the holder gives it back."""
    return {**lease, "spec": {**_spec(lease), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": moment}}


class LeaseClaim:
    """The claim of one process to a role. `taken` is told when it has it, `lost` why not any more; from threads."""

    def __init__(
        self,
        settings: Settings,
        role: str,
        instance: str,
        *,
        taken: Callable[[], None],
        lost: Callable[[str], None],
        failed: Failed,
    ) -> None:
        if settings.kubeconfig is None:
            raise ValueError("a Lease needs a cluster's API")
        config = read_config(settings.kubeconfig)
        self._client = Client(config, timeout=REQUEST_SECONDS)
        self._namespace = settings.lease_namespace or config.namespace
        self._name, self._role, self._instance = f"penstock-{role}", role, instance
        self._taken, self._lost = taken, lost
        self._held: Obj | None = None
        self._confirmed = 0.0
        self._complained = False
        self._ending = threading.Event()
        self._thread = OwnedThread(f"lease of {role}", self._run, failed)
        self._deadline = OwnedThread(f"deadline of {role}", self._watch, failed)

    def start(self) -> None:
        """Begins to stand by."""
        self._thread.start()
        self._deadline.start()

    def release(self) -> None:
        """Gives the Lease back; call when nothing of the role's work goes on any more."""
        self._ending.set()
        self._thread.join(REQUEST_SECONDS + 1)

    def _run(self) -> None:
        seen = SeenLease(since=now())
        while not self._ending.is_set():
            try:
                self._turn(seen)
                self._complained = False
            except KubeError as error:
                self._judge(error)
            self._ending.wait(LOOK_SECONDS if self._held is None else RENEW_SECONDS)
        if self._held is not None:
            self._give_back(self._held)
        self._client.close()

    def _turn(self, seen: SeenLease) -> None:
        if self._held is not None:
            self._renew(self._held)
            return
        lease = self._read()
        seen.look(lease, now())
        if seen.may_take(self._instance, now()):
            began = now()
            wanted = taken(lease, self._name, self._namespace, self._instance, moment())
            self._held = self._write(wanted) if lease is not None else self._create(wanted)
            self._confirmed = began
            log.info("has the Lease", role=self._role, lease=f"{self._namespace}/{self._name}")
            self._taken()

    def _renew(self, held: Obj) -> None:
        began = now()
        try:
            self._held = self._write(renewed(held, moment()))
        except (Conflict, NotFound):
            lease = self._read()
            if _spec(lease).get("holderIdentity") != self._instance or lease is None:
                self._lose("another has taken the Lease")
                return
            self._held = lease  # somebody wrote a label; renewed at the next turn
            return
        self._confirmed = began

    def _watch(self) -> None:
        """In a thread of its own: a request that hangs must not keep a holder from noticing that its time is over."""
        while not self._ending.wait(DEADLINE_LOOK_SECONDS):
            silent = now() - self._confirmed
            if self._held is not None and silent >= GIVE_UP_SECONDS:
                self._lose(f"the Lease could not be renewed for {silent:.1f} s, and another may take it")

    def _lose(self, why: str) -> None:
        log.error("lost the role", role=self._role, why=why)
        self._held = None
        self._ending.set()
        self._lost(why)

    def _judge(self, error: KubeError) -> None:
        if isinstance(error, Forbidden) or (isinstance(error, NotFound) and self._held is None):
            raise MayNot(
                f"The Lease {self._namespace}/{self._name} cannot be used ({describe(error)}). Look at the setting "
                "lease_namespace, and grant get, create and update of leases.coordination.k8s.io there."
            ) from error
        if not isinstance(error, Conflict) and not self._complained:
            self._complained = True
            log.warning("the Lease cannot be reached for now", error=describe(error))

    def _read(self) -> Obj | None:
        return self._client.read(LEASE, Key(self._namespace, self._name))

    def _create(self, lease: Obj) -> Obj:
        return self._client.create(LEASE, lease)

    def _write(self, lease: Obj) -> Obj:
        return self._client.replace(LEASE, lease)

    def _give_back(self, held: Obj) -> None:
        try:
            self._write(released(held, moment()))
        except KubeError as error:
            log.warning("the Lease could not be given back; it runs out by itself", error=describe(error))


def moment() -> str:
    """Now, as the API has it in Leases."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _spec(lease: Obj | None) -> Obj:
    return dict((lease or {}).get("spec") or {})
