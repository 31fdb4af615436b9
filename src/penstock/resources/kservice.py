"""Service (serving.knative.dev/v1), as small as it can be: one revision, run by a Deployment behind a Service."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.contract.names import CLUSTER_DOMAIN
from penstock.kube.kinds import Obj
from penstock.resources.admission import AdmissionContext
from penstock.resources.conditions import ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.field_errors import FieldError, FieldErrors, disallowed, invalid, missing, within
from penstock.resources.metadata import ObjectIdentity, controller_reference
from penstock.resources.pod_rules import template_errors

# Model.


GROUP, KIND, PLURAL = "serving.knative.dev", "Service", "services"

SERVICE_LABEL = "serving.knative.dev/service"
DEFAULT_PORT = 8080

_OF_SERVING = ("containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds", "idleTimeoutSeconds")
"""Fields of a revision that no Pod has."""


@dataclass(frozen=True)
class KService:
    """The spec of the object, as far as the controllers use it."""

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
        """The containers; the serving one has the name of the Service in its environment. The node adds PORT."""
        containers = self._containers()
        serving = next((one for one in containers if one.get("ports")), containers[0] if containers else {})
        name = self.identity.name
        env = {"K_REVISION": self.revision, "K_CONFIGURATION": name, "K_SERVICE": name}
        own = {entry.get("name") for entry in serving.get("env") or []}
        added = [{"name": name, "value": value} for name, value in env.items() if name not in own]
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


# Defaults.


CONTAINER = "user-container"
TRAFFIC = {"latestRevision": True, "percent": 100}


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    spec = obj["spec"]
    if not spec.get("traffic"):
        spec["traffic"] = [dict(TRAFFIC)]
    template = spec.get("template")
    pod = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(pod, dict):
        return
    pod.setdefault("containerConcurrency", 0)
    pod.setdefault("timeoutSeconds", 300)
    containers = pod.get("containers") or []
    if isinstance(containers, list) and containers and isinstance(containers[0], dict) and len(containers) == 1:
        containers[0].setdefault("name", CONTAINER)


# Validation.


WEBHOOK = "validation.webhook.serving.knative.dev"

_ONE_REVISION = "only the latest revision is served here, and it gets all traffic"


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Service."""
    spec = obj.get("spec") or {}
    template = spec.get("template")
    if not template:
        return within("spec", [missing("template")])
    name = (template.get("metadata") or {}).get("name")
    errors = within("template", _check_template(template))
    if name and not name.startswith(f"{(obj.get('metadata') or {}).get('name')}-"):
        prefix = f'"{name}" must have prefix "{(obj.get("metadata") or {}).get("name")}-"'
        errors.append(invalid(prefix, "template.metadata.name"))
    # A port without a number is the default one.
    errors = errors or [error for error in template_errors(spec, old) if not _is_missing_port(error)]
    if [_plain(entry) for entry in spec.get("traffic") or [TRAFFIC]] != [TRAFFIC]:
        errors.append(disallowed("traffic", details=_ONE_REVISION))
    return within("spec", errors)


def _is_missing_port(error: FieldError) -> bool:
    return error.message == missing().message and error.paths[0].endswith(".containerPort")


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry, where `latestRevision` is left out as if nothing else was named."""
    latest = entry.get("latestRevision", not entry.get("revisionName"))
    return {**entry, "latestRevision": latest}


def _check_template(template: dict[str, Any]) -> FieldErrors:
    pod = template.get("spec") or {}
    containers = pod.get("containers") or []
    errors: FieldErrors = [] if containers else [missing("containers")]
    for index, container in enumerate(containers):
        errors += within(f"containers[{index}]", _check_container(container))
    ports = [port for container in containers for port in container.get("ports") or []]
    if len(containers) > 1 and len(ports) != 1:
        count = "more than one" if ports else "expected exactly one, got neither"
        errors.append(FieldError(count + (" container port is set" if ports else ""), ("containers[*].ports",)))
    seconds = pod.get("timeoutSeconds")
    if seconds is not None and seconds < 0:
        errors.append(FieldError(f"expected 0 <= {seconds} <= 600", ("timeoutSeconds",)))
    return within("spec", errors)


def _check_container(container: dict[str, Any]) -> FieldErrors:
    errors: FieldErrors = [] if container.get("image") else [missing("image")]
    ports = container.get("ports") or []
    if len(ports) > 1:
        details = "Only a single port is allowed across all containers"
        errors.append(FieldError("More than one container port is set", ("ports",), details))
    for name in ("lifecycle", "stdin", "tty"):
        if container.get(name):
            errors.append(disallowed(name))
    return errors


# Status.


CONFIGURATIONS_READY = "ConfigurationsReady"
ROUTES_READY = "RoutesReady"


@dataclass(frozen=True)
class KServiceObservation:
    """What the controller has found out."""

    deployment: Mapping[str, Any] | None
    """As stored; None: it cannot be had."""
    deployment_failure: str | None = None
    service_failure: str | None = None


def status_of(obj: Obj, seen: KServiceObservation, now: str) -> dict[str, Any]:
    """The Service's status."""
    wanted = KService.read(obj)
    before = obj.get("status") or {}
    running = _configuration_finding(wanted, seen)
    leading = _route_finding(wanted, seen, running)
    ready = wanted.revision if running.status == "True" else before.get("latestReadyRevisionName")
    status: dict[str, Any] = {
        "observedGeneration": wanted.identity.generation,
        "conditions": conclude(before.get("conditions") or [], [running, leading], now),
        "latestCreatedRevisionName": wanted.revision,
        "url": wanted.url,
        "address": {"url": wanted.url},
    }
    if ready:
        status["latestReadyRevisionName"] = ready
        status["traffic"] = [{**TRAFFIC, "revisionName": ready}]
    return status


def _configuration_finding(wanted: KService, seen: KServiceObservation) -> ConditionFinding:
    failure = seen.deployment_failure or _stuck(seen.deployment)
    if failure is not None:
        message = f'Revision "{wanted.revision}" failed with message: {failure}.'
        return false(CONFIGURATIONS_READY, "RevisionFailed", message)
    return true(CONFIGURATIONS_READY) if _runs(seen.deployment) else unknown(CONFIGURATIONS_READY)


def _route_finding(wanted: KService, seen: KServiceObservation, running: ConditionFinding) -> ConditionFinding:
    if seen.service_failure is not None:
        return false(ROUTES_READY, "NotOwned", seen.service_failure)
    name = wanted.identity.name
    if running.status == "False":
        return false(ROUTES_READY, "RevisionMissing", f'Configuration "{name}" does not have any ready Revision.')
    if running.status == "Unknown":
        message = f'Configuration "{name}" is waiting for a Revision to become ready.'
        return unknown(ROUTES_READY, "RevisionMissing", message)
    return true(ROUTES_READY)


def _runs(deployment: Mapping[str, Any] | None) -> bool:
    """Whether the Deployment as it is now has a Pod that serves; one of the revision before does not count."""
    status = (deployment or {}).get("status") or {}
    generation = ((deployment or {}).get("metadata") or {}).get("generation")
    current = status.get("observedGeneration") in (None, generation)
    updated, available = status.get("updatedReplicas") or 0, status.get("availableReplicas") or 0
    return current and updated > 0 and available > 0 and (status.get("replicas") or 0) <= updated


def _stuck(deployment: Mapping[str, Any] | None) -> str | None:
    """Why the Deployment gets no further; None: it may."""
    conditions = ((deployment or {}).get("status") or {}).get("conditions")
    for kind, state in (("ReplicaFailure", "True"), ("Progressing", "False")):
        found = find(conditions, kind) or {}
        if found.get("status") == state:
            return str(found.get("message") or found.get("reason") or kind).rstrip(".")
    return None
