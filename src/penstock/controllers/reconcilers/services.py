"""The Services controller of the embedded control plane: Endpoints objects, and DNS names for the data plane.

In an existing cluster Kubernetes and its DNS do this, and the controller does not run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.contract.names import service_host
from penstock.contract.routes import ServiceName
from penstock.controllers.reconciler import ReconcilerContext, ReconcilerWorkers
from penstock.controllers.reconcilers.configuration import features_of
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
from penstock.resources.conditions import READY, is_true
from penstock.resources.eventpolicy import SinkGuard, TargetAccess, TargetRules
from penstock.resources.features import Transport
from penstock.resources.metadata import POD_PORTS, controller_of

LOOPBACK = "127.0.0.1"
WEB_PORTS = (80, 443)
MOST_PORT, LONGEST_PORT = 65535, 5

GUARDED = frozenset({EVENT_TRANSFORM, INTEGRATION_SINK})
"""Kinds whose Services have the address of `sinks/guarded_services.py` where tokens are required."""


def selects(service: Obj, pod: Obj) -> bool:
    """Whether the Pod is one of the Service's."""
    selector = (service.get("spec") or {}).get("selector") or {}
    labels = pod["metadata"].get("labels") or {}
    same_namespace = service["metadata"].get("namespace") == pod["metadata"].get("namespace")
    return bool(selector) and same_namespace and all(labels.get(name) == value for name, value in selector.items())


def endpoints_of(service: Obj, pods: Iterable[Obj]) -> list[dict[str, Any]]:
    """The `subsets` of the Service's Endpoints: Pods whose ports have the same numbers share one."""
    subsets: dict[tuple[tuple[str, int, str], ...], dict[str, Any]] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        address = (pod.get("status") or {}).get("podIP")
        if not address or not _serves(pod):
            continue
        mapped = _mapped_ports(pod)
        ports = tuple(
            (str(port.get("name") or ""), mapped.get(number, number), str(port.get("protocol") or "TCP"))
            for port in _ports(service)
            if (number := _target_port(port, pod)) is not None
        )
        subset = subsets.setdefault(ports, _subset(ports))
        field = "addresses" if is_true(pod, READY) else "notReadyAddresses"
        subset.setdefault(field, []).append({"ip": address, "targetRef": _reference(pod)})
    return [subsets[ports] for ports in sorted(subsets)]


def name_of(service: Obj, subsets: Iterable[Mapping[str, Any]]) -> ServiceName:
    """The Service's name with the addresses behind each of its ports."""
    metadata, spec = service["metadata"], service.get("spec") or {}
    host = service_host(metadata["name"], metadata["namespace"])
    if spec.get("type") == "ExternalName":
        return ServiceName(host, _external_ports(service, str(spec.get("externalName") or "")))
    found: dict[str, list[str]] = {str(port["port"]): [] for port in _ports(service)}
    for subset in subsets:
        addresses = [address["ip"] for address in subset.get("addresses") or []]
        numbers = {str(port.get("name") or ""): port["port"] for port in subset.get("ports") or []}
        for port in _ports(service):
            number = numbers.get(str(port.get("name") or ""))
            if number is not None:
                found[str(port["port"])] += [f"{_bracketed(address)}:{number}" for address in addresses]
    return ServiceName(host, {port: tuple(addresses) for port, addresses in found.items()})


def _external_ports(service: Obj, external: str) -> dict[str, tuple[str, ...]]:
    host = LOOPBACK if external in ("localhost", LOOPBACK) else external
    ports = _ports(service)
    if not ports and host != LOOPBACK:
        return {str(port): (f"{host}:{port}",) for port in WEB_PORTS}
    return {str(port["port"]): (f"{host}:{_number(port.get('targetPort')) or port['port']}",) for port in ports}


def _ports(service: Obj) -> list[dict[str, Any]]:
    return list((service.get("spec") or {}).get("ports") or [])


def _target_port(port: Mapping[str, Any], pod: Obj) -> int | None:
    target = port.get("targetPort")
    if target is None or target == "":
        return int(port["port"])
    number = _number(target)
    if number is not None:
        return number
    for container in (pod.get("spec") or {}).get("containers") or []:
        for candidate in container.get("ports") or []:
            if candidate.get("name") == target:
                return int(candidate["containerPort"])
    return None


def _mapped_ports(pod: Obj) -> dict[int, int]:
    """The actual ports of the Pod by those in its spec. Pairs that are not numbers are ignored."""
    written = str((pod["metadata"].get("annotations") or {}).get(POD_PORTS) or "")
    pairs = (pair.partition("=") for pair in written.split(","))
    found = ((_number(port.strip()), _number(actual.strip())) for port, _, actual in pairs)
    return {port: actual for port, actual in found if port and actual}


def _number(target: object) -> int | None:
    """The target as a port number; None where it is a name or not a valid number."""
    text = str(target) if isinstance(target, int | str) else ""
    # The length is checked first: int() raises for thousands of digits.
    is_number = text.isascii() and text.isdigit() and len(text) <= LONGEST_PORT
    return int(text) if is_number and 0 < int(text) <= MOST_PORT else None


def _subset(ports: tuple[tuple[str, int, str], ...]) -> dict[str, Any]:
    listed = [{"name": name, "port": number, "protocol": protocol} for name, number, protocol in ports]
    return {"ports": [{k: v for k, v in port.items() if v} for port in listed]}


def _serves(pod: Obj) -> bool:
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not over and not pod["metadata"].get("deletionTimestamp")


def _reference(pod: Obj) -> dict[str, str]:
    metadata = pod["metadata"]
    return {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


class ServiceReconciler:
    """Services with and without a selector."""

    kind = SERVICE

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    def listen_to_pods(self, workers: ReconcilerWorkers) -> None:
        """Has the Services of a namespace reconciled when one of its Pods changes."""
        services = self._context.tracker.informer(SERVICE)

        def announce(key: Key, _pod: Obj | None) -> None:
            # All of the namespace: a Pod that lost a label no longer matches the Service that it leaves.
            for service in services.all():
                if service["metadata"]["namespace"] == key.namespace:
                    workers.enqueue((SERVICE.kind, Key(key.namespace, service["metadata"]["name"])))

        self._context.tracker.informer(POD).listen(announce)

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        context, me = self._context, (SERVICE.kind, key)
        held = context.tracker.look(me, ENDPOINTS, key)
        context.guarded_pods.pop(key, None)
        if obj is None:
            context.publisher.claim(me, [])
            return
        if not (obj.get("spec") or {}).get("selector"):
            # Without a selector, users or other controllers write the Endpoints, if there are any.
            self._claim(me, obj, name_of(obj, (held or {}).get("subsets") or []))
            return
        pods = [pod for pod in context.tracker.informer(POD).all() if selects(obj, pod)]
        subsets = endpoints_of(obj, pods)
        name = name_of(obj, subsets)
        if _is_guarded(obj) and features.enabled_by(features.OIDC, features_of(context, me)):
            # Such a Service has a single target port, so the addresses of any of its ports will do.
            context.guarded_pods[key] = next(iter(name.ports.values()), ())
            name = _guarded(name, context.guard_ports)
        self._claim(me, obj, name)
        await self._write_endpoints(obj, held, subsets)

    def _claim(self, me: Observer, service: Obj, name: ServiceName) -> None:
        for kind, owner in self._context.publisher.claim(me, [name]).values():
            other = f"{kind} {owner.namespace}/{owner.name}" if owner.namespace else f"penstock ({kind})"
            self._context.recorder.warning(service, "NameTaken", f"The name {name.host} belongs to {other}.")

    async def _write_endpoints(self, service: Obj, held: Obj | None, subsets: list[dict[str, Any]]) -> None:
        if held is None:
            await self._context.api.create(ENDPOINTS, _endpoints(service, subsets))
        elif (held.get("subsets") or []) != subsets:
            with contextlib.suppress(NotFound):
                await self._context.write_spec(ENDPOINTS, {**held, "subsets": subsets})


def guard_service(context: ReconcilerContext, service: Key, transport: Transport, access: TargetAccess) -> bool:
    """Sets who may send to a Service of `GUARDED`; returns whether requests to it are checked at all."""
    record = access_record(access)
    if record is None:
        context.service_guards.pop(service, None)
        return False
    context.service_guards[service] = SinkGuard(transport, TargetRules(service.namespace, record))
    return True


def _is_guarded(service: Obj) -> bool:
    """Decided by its owner, which never changes, so the name never has the addresses of the Pods without checks."""
    owner = controller_of(service) or {}
    return Kind(str(owner.get("apiVersion")), str(owner.get("kind"))) in GUARDED


def _guarded(name: ServiceName, guards: Mapping[str, str]) -> ServiceName:
    """The name with the addresses of the guards in place of those of its ready Pods."""
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
