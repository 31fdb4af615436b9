"""The Services controller of the embedded control plane: Endpoints objects, and names for the data plane.

On a real cluster Kubernetes and its DNS do this, and the controller does not run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from penstock.contract.routes import ServiceName
from penstock.controllers.reconciler import ReconcilerContext, ReconcilerWorkers
from penstock.controllers.reconcilers.configuration import features_of
from penstock.controllers.reconcilers.embedded.endpoints import endpoints_of, name_of, selects
from penstock.controllers.routes.route_records import access_record
from penstock.controllers.tracker import Observer
from penstock.kube.errors import NotFound
from penstock.kube.kinds import (
    ENDPOINTS,
    EVENT_TRANSFORM,
    INTEGRATION_SINK,
    POD,
    SERVICE,
    Key,
    Kind,
    Obj,
)
from penstock.resources import features
from penstock.resources.eventpolicy import SinkGuard, TargetAccess, TargetRules
from penstock.resources.features import Transport
from penstock.resources.metadata import controller_of

GUARDED = frozenset({EVENT_TRANSFORM, INTEGRATION_SINK})
"""Kinds whose Services lead to `sinks/guarded_services.py` where tokens are asked for."""


class ServiceReconciler:
    """Services with and without a selector."""

    kind = SERVICE

    def __init__(self, world: ReconcilerContext) -> None:
        self._world = world

    def listen_to_pods(self, workers: ReconcilerWorkers) -> None:
        """Has the Services of a namespace looked at when one of its Pods changes."""
        services = self._world.tracker.informer(SERVICE)

        def announce(key: Key, _pod: Obj | None) -> None:
            # A Pod that lost a label leaves a Service it no longer names, so all of the namespace are looked at.
            for service in services.all():
                if service["metadata"]["namespace"] == key.namespace:
                    workers.enqueue((SERVICE.kind, Key(key.namespace, service["metadata"]["name"])))

        self._world.tracker.informer(POD).listen(announce)

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        world, me = self._world, (SERVICE.kind, key)
        held = world.tracker.look(me, ENDPOINTS, key)
        world.guarded_pods.pop(key, None)
        if obj is None:
            world.publisher.claim(me, [])
            return
        if not (obj.get("spec") or {}).get("selector"):
            # Without a selector the Endpoints are somebody else's, or there are none.
            self._claim(me, obj, name_of(obj, (held or {}).get("subsets") or []))
            return
        pods = [pod for pod in world.tracker.informer(POD).all() if selects(obj, pod)]
        subsets = endpoints_of(obj, pods)
        name = name_of(obj, subsets)
        if _is_guarded(obj) and features.enabled_by(features.OIDC, features_of(world, me)):
            # Every port of such a Service leads to the same one of its Pods.
            world.guarded_pods[key] = next(iter(name.ports.values()), ())
            name = _led_to(name, world.guard_ports)
        self._claim(me, obj, name)
        await self._write_endpoints(obj, held, subsets)

    def _claim(self, me: Observer, service: Obj, name: ServiceName) -> None:
        for kind, owner in self._world.publisher.claim(me, [name]).values():
            where = f"{kind} {owner.namespace}/{owner.name}" if owner.namespace else f"penstock ({kind})"
            self._world.recorder.warning(service, "NameTaken", f"The name {name.host} belongs to {where}.")

    async def _write_endpoints(self, service: Obj, held: Obj | None, subsets: list[dict[str, Any]]) -> None:
        if held is None:
            await self._world.api.create(ENDPOINTS, _endpoints(service, subsets))
        elif (held.get("subsets") or []) != subsets:
            with contextlib.suppress(NotFound):
                await self._world.write_spec(ENDPOINTS, {**held, "subsets": subsets})


def guard_service(world: ReconcilerContext, service: Key, transport: Transport, access: TargetAccess) -> bool:
    """Notes who may send to a Service of `GUARDED`; whether requests to it are checked at all."""
    record = access_record(access)
    if record is None:
        world.service_guards.pop(service, None)
        return False
    world.service_guards[service] = SinkGuard(transport, TargetRules(service.namespace, record))
    return True


def _is_guarded(service: Obj) -> bool:
    """By its owner, which is known before anything else is: a Service never leads to its Pods unchecked meanwhile."""
    owner = controller_of(service) or {}
    return Kind(str(owner.get("apiVersion")), str(owner.get("kind"))) in GUARDED


def _led_to(name: ServiceName, guards: Mapping[str, str]) -> ServiceName:
    """The name with what checks requests behind its ports, where it has Pods that are ready."""
    return ServiceName(
        name.host, {port: (guards[port],) if pods and port in guards else () for port, pods in name.ports.items()}
    )


def _endpoints(service: Obj, subsets: list[dict[str, Any]]) -> Obj:
    metadata = service["metadata"]
    owner = {"apiVersion": "v1", "kind": "Service", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "ownerReferences": [owner]},
        "subsets": subsets,
    }
