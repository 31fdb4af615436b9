"""The Services controller of the embedded control plane: Endpoints objects, and names for the data plane.

On a real cluster Kubernetes and its DNS do this, and the controller does not run.
"""

from __future__ import annotations

from typing import Any

from penstock.controllers.api import ENDPOINTS, NOT_FOUND, POD, SERVICE, Key, Obj, code_of
from penstock.controllers.reconciler import ReconcilerContext, ReconcilerWorkers
from penstock.controllers.reconcilers.embedded.endpoints import endpoints_of, name_of, selects


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
        if obj is None:
            world.publisher.claim(me, [])
            return
        if not (obj.get("spec") or {}).get("selector"):
            # Without a selector the Endpoints are somebody else's, or there are none.
            world.publisher.claim(me, [name_of(obj, (held or {}).get("subsets") or [])])
            return
        pods = [pod for pod in world.tracker.informer(POD).all() if selects(obj, pod)]
        subsets = endpoints_of(obj, pods)
        world.publisher.claim(me, [name_of(obj, subsets)])
        await self._write_endpoints(obj, held, subsets)

    async def _write_endpoints(self, service: Obj, held: Obj | None, subsets: list[dict[str, Any]]) -> None:
        if held is None:
            await self._world.api.create(ENDPOINTS, _endpoints(service, subsets))
        elif (held.get("subsets") or []) != subsets:
            try:
                await self._world.write_spec(ENDPOINTS, {**held, "subsets": subsets})
            except Exception as error:
                if code_of(error) != NOT_FOUND:
                    raise


def _endpoints(service: Obj, subsets: list[dict[str, Any]]) -> Obj:
    metadata = service["metadata"]
    owner = {"apiVersion": "v1", "kind": "Service", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "ownerReferences": [owner]},
        "subsets": subsets,
    }
