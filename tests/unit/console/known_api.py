"""An API that knows some objects, for pages that are rendered without a server."""

from __future__ import annotations

from typing import Any

from penstock.operations.cluster_api import NotThere, Resource
from penstock.runtime.errors import UserError

Obj = dict[str, Any]


class KnownApi:
    """Answers as `ClusterApi` does, and remembers what was changed."""

    def __init__(self, *objects: Obj) -> None:
        self.objects = list(objects)
        self.annotated: list[tuple[str, dict[str, str | None]]] = []
        self.created: list[Obj] = []

    def all(self, resource: Resource, namespace: str = "") -> list[Obj]:
        return [obj for obj in self.objects if obj["kind"] == resource.kind]

    def get(self, resource: Resource, namespace: str, name: str) -> Obj:
        for obj in self.all(resource):
            if (obj["metadata"]["namespace"], obj["metadata"]["name"]) == (namespace, name):
                return obj
        raise NotThere(f"{resource.kind} {namespace}/{name} does not exist in this penstock.")

    def read(self, path: str) -> Obj | None:
        return None

    def annotate(self, resource: Resource, namespace: str, name: str, annotations: dict[str, str | None]) -> Obj:
        obj = self.get(resource, namespace, name)
        self.annotated.append((name, annotations))
        return obj

    def token(self, namespace: str, account: str, audience: str) -> str:
        if account != "till":
            raise NotThere(f"ServiceAccount {namespace}/{account} does not exist in this penstock.")
        return f"token of {namespace}/{account} for {audience}"

    def create(self, resource: Resource, namespace: str, obj: Obj) -> Obj:
        if obj["metadata"].get("name") == "refused":
            raise UserError("admission webhook denied the request.")
        self.created.append(obj)
        return {**obj, "metadata": {"name": "made-1", "namespace": namespace, **obj["metadata"]}}


def trigger(name: str, *, broker: str = "default", ready: bool = True, failing: str = "", **more: Any) -> Obj:
    """A Trigger with its status."""
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "message": "" if ready else "no broker"}]
    if failing:
        conditions.append({"type": "Delivering", "status": "False", "reason": "Refused", "message": failing})
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **more.pop("metadata", {})},
        "spec": {"broker": broker, "subscriber": {"uri": f"http://127.0.0.1:9000/{name}"}, **more.pop("spec", {})},
        "status": {"subscriberUri": f"http://127.0.0.1:9000/{name}", "conditions": conditions, **more},
    }


def broker(name: str = "default") -> Obj:
    """A Broker."""
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Broker",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "address": {"url": f"http://x/default/{name}"}},
    }
