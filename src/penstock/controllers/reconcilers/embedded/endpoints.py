"""What a Service leads to: from its selector and the Pods, its endpoints and its name for the snapshot. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.contract.names import service_host
from penstock.contract.routes import ServiceName
from penstock.kube.kinds import Obj
from penstock.resources.conditions import READY, find
from penstock.resources.metadata import POD_PORTS

LOOPBACK = "127.0.0.1"
WEB_PORTS = (80, 443)
MOST_PORT, LONGEST_PORT = 65535, 5


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
        place = "addresses" if _is_ready(pod) else "notReadyAddresses"
        subset.setdefault(place, []).append({"ip": address, "targetRef": _reference(pod)})
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
    """The ports that the Pod has in place of others. Pairs that are not numbers are nobody's ports."""
    written = str((pod["metadata"].get("annotations") or {}).get(POD_PORTS) or "")
    pairs = (pair.partition("=") for pair in written.split(","))
    found = ((_number(port.strip()), _number(actual.strip())) for port, _, actual in pairs)
    return {port: actual for port, actual in found if port and actual}


def _number(target: object) -> int | None:
    """The port that is named by its number; None where it is named otherwise, or cannot be one."""
    text = str(target) if isinstance(target, int | str) else ""
    # Digits are counted first: Python raises for a number of thousands of them.
    is_number = text.isascii() and text.isdigit() and len(text) <= LONGEST_PORT
    return int(text) if is_number and 0 < int(text) <= MOST_PORT else None


def _subset(ports: tuple[tuple[str, int, str], ...]) -> dict[str, Any]:
    listed = [{"name": name, "port": number, "protocol": protocol} for name, number, protocol in ports]
    return {"ports": [{k: v for k, v in port.items() if v} for port in listed]}


def _serves(pod: Obj) -> bool:
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not over and not pod["metadata"].get("deletionTimestamp")


def _is_ready(pod: Obj) -> bool:
    ready = find((pod.get("status") or {}).get("conditions"), READY)
    return ready is not None and ready.get("status") == "True"


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
