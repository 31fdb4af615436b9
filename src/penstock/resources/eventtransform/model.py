"""An EventTransform as the controllers see it: the Deployment that transforms, and the Service that leads to it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from penstock.contract.names import service_host
from penstock.resources.admission import Obj
from penstock.resources.features import Transport
from penstock.resources.metadata import ObjectIdentity, controller_reference

GROUP, KIND, PLURAL = "eventing.knative.dev", "EventTransform", "eventtransforms"

IMAGE, CONTAINER, PORT, TLS_PORT = "transform-jsonata", "jsonata-event-transform", 8080, 8443
JSONATA_LABEL, NAME_LABEL = "eventing.knative.dev/event-transform-jsonata", "eventing.knative.dev/event-transform-name"

_SUFFIX, _LONGEST_NAME, _DIGEST = "-jsonata", 63, 32


@dataclass(frozen=True)
class EventTransform:
    """What is asked for."""

    obj: Obj
    identity: ObjectIdentity
    expression: str
    sink: dict[str, Any] | None
    reply_expression: str
    discards_reply: bool

    @classmethod
    def read(cls, obj: Obj) -> EventTransform:
        """The EventTransform behind a stored object."""
        spec = obj.get("spec") or {}
        reply = spec.get("reply") or {}
        return cls(
            obj,
            ObjectIdentity.read(obj),
            str((spec.get("jsonata") or {}).get("expression") or ""),
            spec.get("sink") or None,
            str((reply.get("jsonata") or {}).get("expression") or ""),
            bool(reply.get("discard")),
        )

    @property
    def part_name(self) -> str:
        """The name of the Deployment and of the Service."""
        name = self.identity.name
        if len(name) + len(_SUFFIX) <= _LONGEST_NAME:
            return name + _SUFFIX
        digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
        return name[: _LONGEST_NAME - _DIGEST - len(_SUFFIX)] + digest + _SUFFIX

    @property
    def host(self) -> str:
        """The name of its Service, where it takes events."""
        return service_host(self.part_name, self.identity.namespace)

    def deployment(self, sink: str | None, transport: Transport = "disabled") -> Obj:
        """What transforms; `sink` is where the sink leads."""
        told = {"JSONATA_TRANSFORM": self.expression, "JSONATA_RESPONSE_TRANSFORM": self.reply_expression}
        told |= {"JSONATA_DISCARD_RESPONSE_BODY": "true" if self.discards_reply else "false", "K_SINK": sink or ""}
        told |= {"HTTPS_SERVICE": "" if transport == "disabled" else self.part_name}
        told |= {"DISABLE_HTTP_SERVER": "true" if transport == "strict" else ""}
        ports = [{"containerPort": port, "name": name, "protocol": "TCP"} for name, _, port in _ports(transport)]
        container = {
            "name": CONTAINER,
            "image": IMAGE,
            "env": [{"name": name, "value": value} for name, value in told.items() if value],
            "ports": ports,
        }
        template = {"metadata": {"labels": self._labels()}, "spec": {"containers": [container]}}
        spec = {"replicas": 1, "selector": {"matchLabels": self._labels()}, "template": template}
        return self._part("apps/v1", "Deployment", spec)

    def service(self, transport: Transport = "disabled") -> Obj:
        """What leads to it."""
        ports = [
            {"name": name, "port": port, "protocol": "TCP", "targetPort": target}
            for name, port, target in _ports(transport)
        ]
        return self._part("v1", "Service", {"selector": self._labels(), "ports": ports})

    def _labels(self) -> dict[str, str]:
        return {JSONATA_LABEL: "true", NAME_LABEL: self.identity.name}

    def _part(self, api_version: str, kind: str, spec: dict[str, Any]) -> Obj:
        metadata = {
            "name": self.part_name,
            "namespace": self.identity.namespace,
            "labels": self._labels(),
            "ownerReferences": [controller_reference(self.obj)],
        }
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _ports(transport: Transport) -> list[tuple[str, int, int]]:
    """Names, ports of the Service, and ports of the Pods behind them."""
    plain, secure = ("http", 80, PORT), ("https", 443, TLS_PORT)
    return {"disabled": [plain], "permissive": [secure, plain], "strict": [secure]}[transport]
