"""Brokers, Channels and their routes for a scenario, created through the Kubernetes API of the stack."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from pyreqwest.client import Client, ClientBuilder

NAMESPACE = "bench"
EVENTING = "/apis/eventing.knative.dev/v1/namespaces"
MESSAGING = "/apis/messaging.knative.dev/v1/namespaces"


def namespace_of(name: str) -> dict[str, Any]:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def broker(name: str) -> dict[str, Any]:
    """A Broker with its defaults."""
    return {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": name}}


def trigger(broker_name: str, route: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The Trigger of a route `{name, attributes, filters, subscriber}`."""
    spec: dict[str, Any] = {"broker": broker_name, "subscriber": {"uri": route["subscriber"]}}
    if route.get("attributes"):
        spec["filter"] = {"attributes": route["attributes"]}
    if route.get("filters"):
        spec["filters"] = route["filters"]
    name = f"{broker_name}-{route['name']}"
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def channel(name: str) -> dict[str, Any]:
    """A Channel with its defaults."""
    return {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "metadata": {"name": name}}


def subscription(channel_name: str, route: dict[str, Any]) -> dict[str, Any]:
    """The Subscription of a route."""
    return {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Subscription",
        "metadata": {"name": f"{channel_name}-{route['name']}"},
        "spec": {
            "channel": {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": channel_name},
            "subscriber": {"uri": route["subscriber"]},
        },
    }


class Api:
    """The few calls that a benchmark needs, many at once."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = str(cluster["server"])
        self._token = str(user["token"])
        self._ca = base64.b64decode(cluster["certificate-authority-data"])

    def create(self, objects: Iterable[dict[str, Any]], namespace: str = NAMESPACE) -> None:
        """Creates the objects, 32 at a time."""
        asyncio.run(self._each("POST", [(self._path(o, namespace), o) for o in objects]))

    def delete(self, objects: Iterable[dict[str, Any]], namespace: str = NAMESPACE) -> None:
        """Deletes the objects."""
        asyncio.run(
            self._each("DELETE", [(f"{self._path(o, namespace)}/{o['metadata']['name']}", None) for o in objects])
        )

    def annotate(self, obj: dict[str, Any], annotations: dict[str, str | None], namespace: str = NAMESPACE) -> None:
        """Changes annotations of one object."""
        self.patch(obj, {"metadata": {"annotations": annotations}}, namespace)

    def patch(self, obj: dict[str, Any], change: dict[str, Any], namespace: str = NAMESPACE) -> None:
        """Merges a change into one object."""
        path = f"{self._path(obj, namespace)}/{obj['metadata']['name']}"
        asyncio.run(self._each("PATCH", [(path, change)]))

    def get(self, obj: dict[str, Any], namespace: str = NAMESPACE) -> dict[str, Any]:
        """One object as it is now."""
        return asyncio.run(self._get(f"{self._path(obj, namespace)}/{obj['metadata']['name']}"))

    def token(self, account: str, audience: str, namespace: str = NAMESPACE) -> str:
        """A token of a ServiceAccount for an audience, good for an hour."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        spec = {"audiences": [audience], "expirationSeconds": 3600}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(asyncio.run(self._post(path, asked))["status"]["token"])

    def version(self, path: str) -> str:
        """The version that a collection has now; `changes_since` counts from there."""
        return str(asyncio.run(self._get(f"{path}?limit=1"))["metadata"]["resourceVersion"])

    def changes_since(self, path: str, version: str) -> int:
        """How often objects of a collection were written since then, as far as the API server keeps its past."""
        text = asyncio.run(self._read(f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=1"))
        changes = [json.loads(line) for line in text.splitlines()]
        if problem := next((change["object"] for change in changes if change["type"] == "ERROR"), None):
            raise RuntimeError(f"changes of {path} cannot be counted: {problem.get('message')}")
        return sum(change["type"] in {"ADDED", "MODIFIED"} for change in changes)

    def await_ready(
        self, plural: str, names: set[str], limit: float = 300, namespace: str = NAMESPACE, pause: float = 0.2
    ) -> float:
        """Waits until the named objects are Ready, looking after each pause; gives the seconds it took."""
        began = time.monotonic()
        group = EVENTING if plural in {"brokers", "triggers"} else MESSAGING
        while time.monotonic() - began < limit:
            listing = asyncio.run(self._get(f"{group}/{namespace}/{plural}"))
            ready = {o["metadata"]["name"] for o in listing["items"] if is_ready(o)}
            if names <= ready:
                return time.monotonic() - began
            time.sleep(pause)
        raise RuntimeError(f"{len(names - ready)} of {len(names)} {plural} are not Ready after {limit} s")

    @staticmethod
    def _path(obj: dict[str, Any], namespace: str) -> str:
        if obj["kind"] == "Namespace":
            return "/api/v1/namespaces"
        root = "/api/v1" if obj["apiVersion"] == "v1" else f"/apis/{obj['apiVersion']}"
        return f"{root}/namespaces/{namespace}/{obj['kind'].lower()}s"

    def _client(self) -> Client:
        return (
            ClientBuilder()
            .no_proxy()
            .base_url(self._server)
            .timeout(timedelta(seconds=60))
            .add_root_certificate_pem(self._ca)
            .default_headers({"authorization": f"Bearer {self._token}"})
            .build()
        )

    async def _get(self, path: str) -> dict[str, Any]:
        return dict(json.loads(await self._read(path)))

    async def _read(self, path: str) -> bytes:
        async with self._client() as client:
            response = await client.get(path).build().send()
            return bytes(await response.bytes())

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with self._client() as client:
            builder = client.post(path).header("content-type", "application/json")
            response = await builder.body_bytes(json.dumps(body).encode()).build().send()
            text = bytes(await response.bytes())
            if response.status >= 400:
                raise RuntimeError(f"POST {path}: {response.status} {text[:300]!r}")
            return dict(json.loads(text))

    async def _each(self, verb: str, requests: list[tuple[str, Any]]) -> None:
        limit = asyncio.Semaphore(32)
        async with self._client() as client:

            async def one(path: str, body: Any) -> None:
                async with limit:
                    builder = client.request(verb, path)
                    if body is not None:
                        kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
                        builder = builder.header("content-type", kind).body_bytes(json.dumps(body).encode())
                    response = await builder.build().send()
                    text = bytes(await response.bytes())
                    if response.status >= 400 and response.status not in {404, 409}:
                        raise RuntimeError(f"{verb} {path}: {response.status} {text[:300]!r}")

            await asyncio.gather(*(one(path, body) for path, body in requests))


def is_ready(obj: dict[str, Any]) -> bool:
    """Whether the object's condition Ready is true."""
    conditions = obj.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
