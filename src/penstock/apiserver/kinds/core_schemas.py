"""Schemas of the core kinds, generated from the typed models of the Kubernetes client library.

The models have field names, types and descriptions. What they lack is listed here: defaults and merge keys of lists.
"""

from __future__ import annotations

import re
import types
import typing
from datetime import datetime
from typing import Any

import msgspec

_REF = "#/components/schemas/"

LIST_KEYS: dict[tuple[str, str], tuple[str, ...]] = {
    ("ObjectMeta", "ownerReferences"): ("uid",),
    ("PodSpec", "containers"): ("name",),
    ("PodSpec", "initContainers"): ("name",),
    ("PodSpec", "ephemeralContainers"): ("name",),
    ("PodSpec", "volumes"): ("name",),
    ("PodSpec", "imagePullSecrets"): ("name",),
    ("PodSpec", "hostAliases"): ("ip",),
    ("PodStatus", "conditions"): ("type",),
    ("PodStatus", "podIPs"): ("ip",),
    ("Container", "env"): ("name",),
    ("Container", "ports"): ("containerPort", "protocol"),
    ("Container", "volumeMounts"): ("mountPath",),
    ("ServiceSpec", "ports"): ("port", "protocol"),
    ("ServiceStatus", "conditions"): ("type",),
    ("NamespaceStatus", "conditions"): ("type",),
    ("ServiceAccount", "secrets"): ("name",),
    ("CustomResourceDefinitionStatus", "conditions"): ("type",),
    ("JobStatus", "conditions"): ("type",),
    ("DeploymentStatus", "conditions"): ("type",),
    ("ReplicaSetStatus", "conditions"): ("type",),
}
SETS = {("ObjectMeta", "finalizers")}
DEFAULTS: dict[tuple[str, str], Any] = {
    ("ContainerPort", "protocol"): "TCP",
    ("ServicePort", "protocol"): "TCP",
    ("EndpointPort", "protocol"): "TCP",
    ("ServiceSpec", "type"): "ClusterIP",
    ("ServiceSpec", "sessionAffinity"): "None",
    ("PodSpec", "restartPolicy"): "Always",
    ("PodSpec", "dnsPolicy"): "ClusterFirst",
    ("PodSpec", "terminationGracePeriodSeconds"): 30,
    ("PodSpec", "securityContext"): {},
    ("Container", "imagePullPolicy"): "IfNotPresent",
    ("Container", "terminationMessagePath"): "/dev/termination-log",
    ("Container", "terminationMessagePolicy"): "File",
    ("Container", "resources"): {},
    ("ObjectFieldSelector", "apiVersion"): "v1",
    ("Secret", "type"): "Opaque",
    ("CronJobSpec", "concurrencyPolicy"): "Allow",
    ("CronJobSpec", "suspend"): False,
    ("CronJobSpec", "successfulJobsHistoryLimit"): 3,
    ("CronJobSpec", "failedJobsHistoryLimit"): 1,
    ("DeploymentSpec", "replicas"): 1,
    ("DeploymentSpec", "revisionHistoryLimit"): 10,
    ("DeploymentSpec", "progressDeadlineSeconds"): 600,
    ("ReplicaSetSpec", "replicas"): 1,
}
FILLED_LISTS = {("PodSpec", "containers"), ("PolicyRule", "verbs"), ("CustomResourceDefinitionSpec", "versions")}
"""Required lists that must not be empty; to Go clients, an empty one and none are the same in all others."""
_TEXT_MAPS = {"labels", "annotations", "matchLabels", "nodeSelector", "stringData", "selector"}
_FIELD = re.compile(r"^\s*\* \*\*([\w-]+)\*\* ``[^`]*`` - (.*?)(?=^\s*\* \*\*|\Z)", re.MULTILINE | re.DOTALL)
_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
}


class Definitions:
    """The schemas of all models reached so far, by the name under which they refer to each other."""

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}

    def add(self, model: type[msgspec.Struct]) -> dict[str, Any]:
        """The schema of a model; everything it refers to is added too."""
        name = definition_name(model)
        if name not in self.schemas:
            schema: dict[str, Any] = {"type": "object"}
            self.schemas[name] = schema
            schema.update(self._schema(model))
        return self.schemas[name]

    def _schema(self, model: type[msgspec.Struct]) -> dict[str, Any]:
        summary, descriptions = _descriptions(model.__doc__ or "")
        if model.__name__ == "JSONSchemaProps":
            return {"description": summary, "x-kubernetes-preserve-unknown-fields": True}
        hints = typing.get_type_hints(model)
        without_default = len(model.__struct_fields__) - len(model.__struct_defaults__)
        properties: dict[str, Any] = {}
        required: list[str] = []
        for index, field in enumerate(model.__struct_fields__):
            shown = model.__struct_encode_fields__[index]
            needed = index < without_default and (model.__name__, shown) not in DEFAULTS
            properties[shown] = self._property(
                model.__name__, shown, hints[field], descriptions.get(shown, ""), required=needed
            )
            if needed:
                required.append(shown)
        schema: dict[str, Any] = {"description": summary, "properties": properties}
        if required:
            schema["required"] = required
        return schema

    def _property(self, owner: str, field: str, hint: Any, description: str, *, required: bool) -> dict[str, Any]:
        schema = self._type(hint)
        if field in _TEXT_MAPS and schema.get("additionalProperties"):
            schema["additionalProperties"] = {"type": "string"}
        if (owner, field) in LIST_KEYS:
            keys = LIST_KEYS[owner, field]
            schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
            schema |= {"x-kubernetes-patch-merge-key": keys[0], "x-kubernetes-patch-strategy": "merge"}
        elif (owner, field) in SETS:
            schema |= {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}
        if (owner, field) in DEFAULTS:
            schema["default"] = DEFAULTS[owner, field]
        elif required and schema.get("type") == "array" and (owner, field) not in FILLED_LISTS:
            schema["default"] = []
        if description:
            schema["description"] = description
        return schema

    def _type(self, hint: Any) -> dict[str, Any]:  # noqa: PLR0911  # one return per kind of hint reads best
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            present = [argument for argument in arguments if argument is not type(None)]
            if len(present) == 1:
                return self._type(present[0])
            if set(present) == {int, str}:
                return {"x-kubernetes-int-or-string": True}
            return {"x-kubernetes-preserve-unknown-fields": True}
        if hint in _SCALARS:
            return dict(_SCALARS[hint])
        if hint is dict or origin is dict:
            return {"type": "object", "additionalProperties": True}
        if origin is list:
            return {"type": "array", "items": self._type(arguments[0])}
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            self.add(hint)
            # A keyword beside `$ref` would be lost in OpenAPI, so the reference is wrapped.
            return {"allOf": [{"$ref": _REF + definition_name(hint)}]}
        return {"x-kubernetes-preserve-unknown-fields": True}


def definition_name(model: type) -> str:
    """`io.k8s.api.core.v1.Pod`: the name the model has in Kubernetes' own OpenAPI."""
    group = model.__module__.rpartition(".")[2]
    special = {
        "meta_v1": "io.k8s.apimachinery.pkg.apis.meta.v1",
        "apiextensions_v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    }
    return f"{special.get(group) or 'io.k8s.api.' + group.replace('_', '.')}.{model.__name__}"


def _descriptions(docstring: str) -> tuple[str, dict[str, str]]:
    summary, _, parameters = docstring.partition("**parameters**")
    fields = {found[1]: _squeezed(found[2]) for found in _FIELD.finditer(parameters)}
    return _squeezed(summary), fields


def _squeezed(text: str) -> str:
    return " ".join(text.split())
