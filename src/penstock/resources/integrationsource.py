"""IntegrationSource: a connector that sends events; here, one that does so at intervals."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.kube.kinds import Obj
from penstock.oidc.names import child_name
from penstock.resources.admission import AdmissionContext
from penstock.resources.conditions import READY, ConditionFinding, conclude, false, find, unknown
from penstock.resources.connectors import (
    NAME_LABEL,
    NOT_SUPPORTED,
    check_connectors,
    connectors_of,
    environment_of,
    not_supported,
)
from penstock.resources.field_errors import FieldErrors, within
from penstock.resources.metadata import ObjectIdentity, controller_reference
from penstock.resources.pod_rules import template_errors

# Model.


HERE = "timer"
IMAGE, CONTAINER = "timer-source", "source"
_PREFIX = "CAMEL_KAMELET_TIMER_SOURCE"
_CERTIFICATES = {
    "CAMEL_KNATIVE_CLIENT_SSL_ENABLED": "true",
    "CAMEL_KNATIVE_CLIENT_SSL_CERT_PATH": "/knative-custom-certs/knative-eventing-bundle.pem",
}
_TOKEN = {
    "CAMEL_KNATIVE_CLIENT_OIDC_ENABLED": "true",
    "CAMEL_KNATIVE_CLIENT_OIDC_TOKEN_PATH": "file:///oidc/token",
}


@dataclass(frozen=True)
class IntegrationSource:
    """The spec of the object, as far as the controllers use it."""

    obj: Obj
    identity: ObjectIdentity
    connector: str
    options: dict[str, Any]
    """Of `spec.timer`."""

    @classmethod
    def read(cls, obj: Obj) -> IntegrationSource:
        """The IntegrationSource behind a stored object."""
        spec = obj.get("spec") or {}
        asked = connectors_of(spec, HERE)
        return cls(obj, ObjectIdentity.read(obj), asked[0] if asked else "", dict(spec.get(HERE) or {}))

    @property
    def is_supported(self) -> bool:
        """Whether its connector is here."""
        return self.connector == HERE

    @property
    def part_name(self) -> str:
        """The name of the ContainerSource."""
        return child_name(self.identity.name, "-containersource")

    def container_source(self, *, with_token: bool = False) -> Obj:
        """What runs the timer. `with_token`: its sink asks for tokens."""
        spec = self.obj.get("spec") or {}
        labels = {NAME_LABEL: self.identity.name}
        template = copy.deepcopy(spec.get("template") or {})
        details = template.get("metadata") or {}
        template["metadata"] = {**details, "labels": {**(details.get("labels") or {}), **labels}}
        variables = _CERTIFICATES | (_TOKEN if with_token else {})
        env = [{"name": name, "value": value} for name, value in variables.items()]
        container = {"name": CONTAINER, "image": IMAGE, "env": env + environment_of(_PREFIX, self.options)}
        template["spec"] = {**(template.get("spec") or {}), "containers": [container]}
        passed = {name: copy.deepcopy(spec[name]) for name in ("sink", "ceOverrides") if name in spec}
        return {
            "apiVersion": "sources.knative.dev/v1",
            "kind": "ContainerSource",
            "metadata": {
                "name": self.part_name,
                "namespace": self.identity.namespace,
                "labels": labels,
                "ownerReferences": [controller_reference(self.obj)],
            },
            "spec": {"template": template, **passed},
        }


# Validation.


OF_AWS = {
    "s3": ("s3.arn", "s3.region"),
    "sqs": ("sqs.arn", "sqs.region"),
    "ddbStreams": ("ddb-streams.table", "ddb-streams.region"),
}


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the IntegrationSource. Those about its sink, its ContainerSource has, as with Knative."""
    spec = obj.get("spec") or {}
    errors = check_connectors(spec, HERE, OF_AWS, "source")
    before = None if old is None else {"spec": _without_containers(old.get("spec") or {})}
    return within("spec", errors or template_errors(_without_containers(spec), before))


def _without_containers(spec: Obj) -> Obj:
    """The spec with what counts of its template: the connector's container takes the place of all that it names."""
    template = spec.get("template") or {}
    pod = {name: value for name, value in (template.get("spec") or {}).items() if name != "containers"}
    return {"template": {"spec": pod}}


# Status.


CONTAINER_SOURCE_READY = "ContainerSourceReady"
_FROM_CONTAINER_SOURCE = ("sinkUri", "sinkCACerts", "sinkAudience", "auth")


def status_of(obj: Obj, container_source: Mapping[str, Any] | None, failure: str | None, now: str) -> dict[str, Any]:
    """The IntegrationSource's status. `failure` says why the ContainerSource cannot be had."""
    wanted = IntegrationSource.read(obj)
    found = (container_source or {}).get("status") or {}
    if not wanted.is_supported:
        finding = false(CONTAINER_SOURCE_READY, NOT_SUPPORTED, not_supported(wanted.connector, HERE))
    elif failure is not None:
        finding = false(CONTAINER_SOURCE_READY, "ContainerSourceFailed", failure)
    else:
        finding = _copied(find(found.get("conditions"), READY))
    return {
        "observedGeneration": wanted.identity.generation,
        "conditions": conclude((obj.get("status") or {}).get("conditions") or [], [finding], now),
        **{name: found[name] for name in _FROM_CONTAINER_SOURCE if name in found},
    }


def _copied(ready: Mapping[str, Any] | None) -> ConditionFinding:
    if ready is None:
        return unknown(CONTAINER_SOURCE_READY)
    if ready["status"] == "True":
        return ConditionFinding(CONTAINER_SOURCE_READY, "True")
    state = false if ready["status"] == "False" else unknown
    return state(CONTAINER_SOURCE_READY, str(ready.get("reason") or ""), str(ready.get("message") or ""))
