"""Leader election by a Lease of coordination.k8s.io, for roles that use a cluster's API.

The rules are those of Kubernetes' own components: the holder renews the Lease; a standby process takes it when it has
not changed for its `leaseDurationSeconds`, measured on the standby's own clock. Every write names the resource version
it was read at, so of two processes that take it at once one gets a conflict. A holder that cannot renew in time stops
before others may take the Lease.
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
RENEW_DEADLINE_SECONDS = 10.0
RENEW_SECONDS = 2.0
RETRY_SECONDS = 1.0
DEADLINE_CHECK_SECONDS = 0.25
REQUEST_SECONDS = 3.0


class MayNot(RuntimeError):
    """The API does not let this process use the Lease; retrying does not help."""


@dataclass
class SeenLease:
    """The Lease as a standby process has seen it. Pure: the caller passes the time."""

    lease: Obj | None = None
    since: float = field(default=0.0)
    """When it was first seen in its present state."""

    def observe(self, lease: Obj | None, at: float) -> None:
        """Records the present state of the Lease."""
        if self.lease is None or lease is None or _spec(lease) != _spec(self.lease):
            self.since = at
        self.lease = lease

    def may_take(self, instance: str, at: float) -> bool:
        """Whether it has no holder, this instance is the holder, or it has expired."""
        spec = _spec(self.lease)
        if spec.get("holderIdentity") in (None, "", instance):
            return True
        return at - self.since >= max(float(spec.get("leaseDurationSeconds") or 0), LEASE_SECONDS)


def taken(lease: Obj | None, name: str, namespace: str, holder: str, moment: str) -> Obj:
    """The Lease as its new holder writes it."""
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
    """The Lease as the holder releases it."""
    return {**lease, "spec": {**_spec(lease), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": moment}}


class LeaseClaim:
    """The claim of one process to a role. Calls `taken` when it has the role, and `lost` with the reason when it
    has lost it, from threads of its own."""

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
        self._logged_failure = False
        self._ending = threading.Event()
        self._thread = OwnedThread(f"lease of {role}", self._run, failed)
        self._deadline = OwnedThread(f"deadline of {role}", self._watch_deadline, failed)

    def start(self) -> None:
        """Starts standing by."""
        self._thread.start()
        self._deadline.start()

    def release(self) -> None:
        """Releases the Lease; to be called when all work of the role has ended."""
        self._ending.set()
        self._thread.join(REQUEST_SECONDS + 1)

    def _run(self) -> None:
        seen = SeenLease(since=now())
        while not self._ending.is_set():
            try:
                self._take_or_renew(seen)
                self._logged_failure = False
            except KubeError as error:
                self._request_failed(error)
            self._ending.wait(RETRY_SECONDS if self._held is None else RENEW_SECONDS)
        if self._held is not None:
            self._release(self._held)
        self._client.close()

    def _take_or_renew(self, seen: SeenLease) -> None:
        if self._held is not None:
            self._renew(self._held)
            return
        lease = self._read()
        seen.observe(lease, now())
        if seen.may_take(self._instance, now()):
            began = now()
            wanted = taken(lease, self._name, self._namespace, self._instance, moment())
            self._held = self._write(wanted) if lease is not None else self._create(wanted)
            self._confirmed = began
            log.info("took the Lease", role=self._role, lease=f"{self._namespace}/{self._name}")
            self._taken()

    def _renew(self, held: Obj) -> None:
        began = now()
        try:
            self._held = self._write(renewed(held, moment()))
        except (Conflict, NotFound):
            lease = self._read()
            if _spec(lease).get("holderIdentity") != self._instance or lease is None:
                self._lose("another process has taken the Lease")
                return
            self._held = lease  # another client changed a label; the next turn renews it
            return
        self._confirmed = began

    def _watch_deadline(self) -> None:
        """In a thread of its own: a request that hangs must not keep a holder from noticing that its time is over."""
        while not self._ending.wait(DEADLINE_CHECK_SECONDS):
            elapsed = now() - self._confirmed
            if self._held is not None and elapsed >= RENEW_DEADLINE_SECONDS:
                self._lose(f"the Lease could not be renewed for {elapsed:.1f} s, and another process may take it")

    def _lose(self, why: str) -> None:
        log.error("lost the role", role=self._role, why=why)
        self._held = None
        self._ending.set()
        self._lost(why)

    def _request_failed(self, error: KubeError) -> None:
        if isinstance(error, Forbidden) or (isinstance(error, NotFound) and self._held is None):
            raise MayNot(
                f"The Lease {self._namespace}/{self._name} cannot be used ({describe(error)}). Check the setting "
                "lease_namespace, and grant get, create and update of leases.coordination.k8s.io there."
            ) from error
        if not isinstance(error, Conflict) and not self._logged_failure:
            self._logged_failure = True
            log.warning("the Lease cannot be read or written; retrying", error=describe(error))

    def _read(self) -> Obj | None:
        return self._client.read(LEASE, Key(self._namespace, self._name))

    def _create(self, lease: Obj) -> Obj:
        return self._client.create(LEASE, lease)

    def _write(self, lease: Obj) -> Obj:
        return self._client.replace(LEASE, lease)

    def _release(self, held: Obj) -> None:
        try:
            self._write(released(held, moment()))
        except KubeError as error:
            log.warning("the Lease could not be released; it will expire", error=describe(error))


def moment() -> str:
    """The present time in the format of Leases."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _spec(lease: Obj | None) -> Obj:
    return dict((lease or {}).get("spec") or {})
