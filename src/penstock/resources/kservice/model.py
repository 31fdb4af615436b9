"""A serving Service as the controllers see it: the Deployment that runs it and the Service that leads to it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from penstock.contract.names import CLUSTER_DOMAIN
from penstock.resources.admission import Obj
from penstock.resources.metadata import ObjectIdentity, controller_reference

GROUP, KIND, PLURAL = "serving.knative.dev", "Service", "services"

SERVICE_LABEL = "serving.knative.dev/service"
DEFAULT_PORT = 8080

_OF_SERVING = ("containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds", "idleTimeoutSeconds")
"""Fields of a revision that no Pod has."""


@dataclass(frozen=True)
class KService:
    """What is asked for."""

    obj: Obj
    identity: ObjectIdentity
    template: dict[str, Any]

    @classmethod
    def read(cls, obj: Obj) -> KService:
        """The Service behind a stored object."""
        return cls(obj, ObjectIdentity.read(obj), dict((obj.get("spec") or {}).get("template") or {}))

    @property
    def url(self) -> str:
        """Where it takes requests."""
        return f"http://{self.identity.name}.{self.identity.namespace}.svc.{CLUSTER_DOMAIN}"

    @property
    def revision(self) -> str:
        """The name of the one revision."""
        chosen = (self.template.get("metadata") or {}).get("name")
        return str(chosen or f"{self.identity.name}-{self.identity.generation:05d}")

    @property
    def port(self) -> int:
        """The port that the program listens on."""
        for container in self._containers():
            for port in container.get("ports") or []:
                return int(port.get("containerPort") or DEFAULT_PORT)
        return DEFAULT_PORT

    def deployment(self) -> Obj:
        """What runs the revision."""
        metadata = self.template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), **self._labels()}
        pod = {name: value for name, value in (self.template.get("spec") or {}).items() if name not in _OF_SERVING}
        pod["containers"] = self._programs()
        template: dict[str, Any] = {"metadata": {"labels": labels}, "spec": pod}
        if metadata.get("annotations"):
            template["metadata"]["annotations"] = dict(metadata["annotations"])
        spec = {"replicas": 1, "selector": {"matchLabels": self._selector()}, "template": template}
        return self._part("apps/v1", "Deployment", f"{self.identity.name}-deployment", spec)

    def service(self) -> Obj:
        """What leads to it."""
        ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": self.port}]
        return self._part("v1", "Service", self.identity.name, {"selector": self._selector(), "ports": ports})

    def _programs(self) -> list[dict[str, Any]]:
        """The containers; the one that serves is told which Service it is. Its port the node tells it."""
        containers = self._containers()
        serving = next((one for one in containers if one.get("ports")), containers[0] if containers else {})
        name = self.identity.name
        told = {"K_REVISION": self.revision, "K_CONFIGURATION": name, "K_SERVICE": name}
        own = {entry.get("name") for entry in serving.get("env") or []}
        added = [{"name": name, "value": value} for name, value in told.items() if name not in own]
        serving["env"] = [*(serving.get("env") or []), *added]
        serving["ports"] = [{"name": "user-port", "containerPort": self.port, "protocol": "TCP"}]
        probe = serving.get("readinessProbe")
        if isinstance(probe, dict):
            _aim(probe, self.port)
        return containers

    def _containers(self) -> list[dict[str, Any]]:
        return copy.deepcopy(list((self.template.get("spec") or {}).get("containers") or []))

    def _selector(self) -> dict[str, str]:
        return {SERVICE_LABEL: self.identity.name}

    def _labels(self) -> dict[str, str]:
        return {
            **self._selector(),
            "serving.knative.dev/configuration": self.identity.name,
            "serving.knative.dev/configurationGeneration": str(self.identity.generation),
            "serving.knative.dev/revision": self.revision,
            "app": self.revision,
        }

    def _part(self, api_version: str, kind: str, name: str, spec: dict[str, Any]) -> Obj:
        metadata = {
            "name": name,
            "namespace": self.identity.namespace,
            "labels": self._selector(),
            "ownerReferences": [controller_reference(self.obj)],
        }
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _aim(probe: dict[str, Any], port: int) -> None:
    """A probe of a revision names no port, or 0: that of the container is meant."""
    for way in ("httpGet", "tcpSocket", "grpc"):
        if isinstance(probe.get(way), dict) and not probe[way].get("port"):
            probe[way]["port"] = port
