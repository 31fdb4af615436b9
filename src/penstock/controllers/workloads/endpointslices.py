"""EndpointSlices: mirrored from the Endpoints of a Service, for newer clients. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from penstock.controllers.workloads.owned import reference_to
from penstock.kube.kinds import ENDPOINTS, Obj

SERVICE_LABEL = "kubernetes.io/service-name"
MANAGER_LABEL, MANAGER = "endpointslice.kubernetes.io/managed-by", "endpointslicemirroring-controller.k8s.io"


def slices_of(endpoints: Obj) -> list[Obj]:
    """The EndpointSlices of an Endpoints object, one for each of its subsets."""
    metadata = endpoints["metadata"]
    return [
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": _name(metadata, number),
                "namespace": metadata["namespace"],
                "labels": {SERVICE_LABEL: metadata["name"], MANAGER_LABEL: MANAGER},
                "ownerReferences": [reference_to(ENDPOINTS, endpoints)],
            },
            "addressType": _family(subset),
            "endpoints": [
                *(_endpoint(address, True) for address in subset.get("addresses") or ()),
                *(_endpoint(address, False) for address in subset.get("notReadyAddresses") or ()),
            ],
            "ports": [
                {"name": port.get("name", ""), "port": port["port"], "protocol": port.get("protocol", "TCP")}
                for port in subset.get("ports") or ()
            ],
        }
        for number, subset in enumerate(endpoints.get("subsets") or ())
    ]


def same_slice(held: Obj, wanted: Obj) -> bool:
    """Whether a stored slice is as wanted."""
    return all(held.get(field) == wanted[field] for field in ("addressType", "endpoints", "ports"))


def _name(metadata: Mapping[str, Any], number: int) -> str:
    digest = hashlib.sha256(f"{metadata['uid']}/{number}".encode()).hexdigest()[:5]
    return f"{metadata['name'][:57]}-{digest}"


def _family(subset: Mapping[str, Any]) -> str:
    addresses = [*(subset.get("addresses") or ()), *(subset.get("notReadyAddresses") or ())]
    return "IPv6" if addresses and ":" in addresses[0]["ip"] else "IPv4"


def _endpoint(address: Mapping[str, Any], ready: bool) -> Obj:
    endpoint: Obj = {
        "addresses": [address["ip"]],
        "conditions": {"ready": ready, "serving": ready, "terminating": False},
    }
    for field in ("hostname", "nodeName", "targetRef"):
        if address.get(field):
            endpoint[field] = address[field]
    return endpoint
