"""The Kubernetes API as commands use it: short calls, plain dictionaries, and failures told as Problems."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec
from lightkube import KubeConfig
from lightkube.config.client_adapter import Client, ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError

from penstock.engine.problem import Problem
from penstock.operations.installation import Installation
from penstock.resources.metadata import is_object_name
from penstock.settings import IN_CLUSTER

Obj = dict[str, Any]

FIELD_MANAGER = "penstock-cli"
NOT_FOUND = 404
WATCH_SECONDS = 300
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Resource:
    """A kind that the server has."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()

    def path(self, namespace: str, name: str = "") -> str:
        """Where its objects are."""
        base = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{base}{scope}/{self.plural}" + (f"/{name}" if name else "")


BROKERS = Resource("eventing.knative.dev/v1", "Broker", "brokers", True)
TRIGGERS = Resource("eventing.knative.dev/v1", "Trigger", "triggers", True)
CHANNELS = Resource("messaging.knative.dev/v1", "Channel", "channels", True)
IN_MEMORY_CHANNELS = Resource("messaging.knative.dev/v1", "InMemoryChannel", "inmemorychannels", True)
SUBSCRIPTIONS = Resource("messaging.knative.dev/v1", "Subscription", "subscriptions", True)

REPLAYS = Resource("penstock.dev/v1alpha1", "Replay", "replays", True)

ROUTES = (TRIGGERS, SUBSCRIPTIONS)
TARGETS = (BROKERS, CHANNELS, IN_MEMORY_CHANNELS)


class NotThere(Problem):
    """The object that was named does not exist."""


class NotReached(Problem):
    """The API does not answer."""


class ClusterApi:
    """A connection to the API of an installation. Every call raises Problem where it is not answered as hoped."""

    def __init__(self, installation: Installation, *, token: str | None = None) -> None:
        """With a token, in the name of its owner in place of the installation's own user."""
        self._where = installation.where
        config = _config(installation)
        if token is not None:
            config = config._replace(user=User(token=token))
        self.namespace = os.environ.get("PENSTOCK_NAMESPACE") or config.namespace
        """Namespace of commands that name none."""
        self._client = Client(config, ConnectionParams(trust_env=False))

    def __enter__(self) -> ClusterApi:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives its connections back."""
        self._client.close()

    def read(self, path: str) -> Obj | None:
        """What is at a path; None: nothing."""
        response = self._send("GET", path)
        return None if response.status_code == NOT_FOUND else _answer(response)

    def get(self, resource: Resource, namespace: str, name: str) -> Obj:
        """An object. Raises Problem where there is none."""
        found = self.read(resource.path(namespace, name))
        if found is None:
            raise NotThere(f"There is no {resource.kind} {namespace}/{name} in {self._where}.")
        return found

    def all(self, resource: Resource, namespace: str = "") -> list[Obj]:
        """The objects of a namespace, or of all."""
        items: list[Obj] = []
        token = ""
        while True:
            answer = _answer(self._send("GET", resource.path(namespace), params={"limit": "500", "continue": token}))
            named = {"apiVersion": resource.api_version, "kind": resource.kind}
            items.extend({**named, **item} for item in answer.get("items") or [])
            token = (answer.get("metadata") or {}).get("continue") or ""
            if not token:
                return items

    def table(self, resource: Resource, namespace: str, name: str = "") -> Obj:
        """Objects as the server prints them."""
        accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
        response = self._send("GET", resource.path(namespace, name), headers=accept)
        if response.status_code == NOT_FOUND and name:
            raise NotThere(f"There is no {resource.kind} {namespace}/{name} in {self._where}.")
        return _answer(response)

    def create(self, resource: Resource, namespace: str, obj: Obj) -> Obj:
        """Creates an object."""
        return _answer(self._send("POST", resource.path(namespace), json=obj, params={"fieldManager": FIELD_MANAGER}))

    def apply(self, resource: Resource, namespace: str, obj: Obj) -> tuple[Obj, bool]:
        """Creates the object or brings what is there into its shape; whether it was created."""
        response = self._send(
            "PATCH",
            resource.path(namespace, obj["metadata"]["name"]),
            content=msgspec.json.encode(obj),
            headers={"Content-Type": APPLY_PATCH},
            params={"fieldManager": FIELD_MANAGER, "force": "true"},
        )
        return _answer(response), response.status_code == 201

    def annotate(
        self, resource: Resource, namespace: str, name: str, annotations: Mapping[str, str | None], version: str = ""
    ) -> Obj:
        """Changes annotations of an object, if it still has the version; None takes one away."""
        metadata = {"annotations": annotations, **({"resourceVersion": version} if version else {})}
        response = self._send(
            "PATCH",
            resource.path(namespace, name),
            content=msgspec.json.encode({"metadata": metadata}),
            headers={"Content-Type": MERGE_PATCH},
            params={"fieldManager": FIELD_MANAGER},
        )
        if response.status_code == NOT_FOUND:
            raise NotThere(f"There is no {resource.kind} {namespace}/{name} in {self._where}.")
        return _answer(response)

    def token(self, namespace: str, account: str, audience: str) -> str:
        """A token of a ServiceAccount for an audience, good for an hour or as long as the server gives it."""
        if not is_object_name(account):
            raise Problem(f"{account!r} cannot be the name of a ServiceAccount.", exit_code=2)
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [audience]}}
        response = self._send("POST", path, json=asked)
        if response.status_code == NOT_FOUND:
            raise NotThere(f"There is no ServiceAccount {namespace}/{account} in {self._where}.")
        return str(_answer(response)["status"]["token"])

    def delete(self, resource: Resource, namespace: str, name: str) -> bool:
        """Deletes an object; false where there was none."""
        response = self._send("DELETE", resource.path(namespace, name))
        if response.status_code == NOT_FOUND:
            return False
        _answer(response)
        return True

    def watch(self, resource: Resource, namespace: str, name: str, version: str) -> Iterator[Obj]:
        """An object each time it changes after `version`, for a while."""
        params = {
            "watch": "true",
            "fieldSelector": f"metadata.name={name}",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        try:
            with self._client.stream("GET", resource.path(namespace), params=params, timeout=WATCH_SECONDS) as response:
                if response.status_code >= 400:
                    response.read()
                    _answer(response)
                for line in response.iter_lines():
                    if line:
                        yield msgspec.json.decode(line)["object"]
        except httpx2.TransportError as error:
            raise self._not_reached(error) from None

    def resources(self) -> list[Resource]:
        """Every kind that the server has, each in the version that its group prefers, or else in the first with it."""
        groups = _answer(self._send("GET", "/apis")).get("groups") or []
        found: dict[tuple[str, str], Resource] = {}
        for version in ("v1", *(version for group in groups for version in _versions(group))):
            path = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for one in (self.read(path) or {}).get("resources") or []:
                if "/" not in one["name"]:
                    names = (one.get("singularName") or one["kind"].lower(), *one.get("shortNames", ()))
                    resource = Resource(version, one["kind"], one["name"], one["namespaced"], names)
                    found.setdefault((version.rpartition("/")[0], one["name"]), resource)
        return list(found.values())

    def resource(self, word: str) -> Resource:
        """The kind that a word names: `triggers`, `trigger`, `Trigger`, a short name, each with `.group` if need be."""
        name, _, group = word.lower().partition(".")
        for one in self.resources():
            fits = name in (one.plural, one.kind.lower(), *one.short_names)
            if fits and (not group or one.api_version.partition("/")[0] == group):
                return one
        raise Problem(f"The server has no kind {word}.", "penstock get --kinds lists those it has.", exit_code=2)

    def resource_of(self, obj: Obj) -> Resource:
        """The kind of an object. Raises Problem where the server has none such."""
        version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for one in (self.read(path) or {}).get("resources") or [] if version and kind else []:
            if one["kind"] == kind and "/" not in one["name"]:
                return Resource(version, kind, one["name"], one["namespaced"])
        raise Problem(f'no matches for kind "{kind}" in version "{version}"')

    def _send(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        try:
            return self._client.request(method, path, **arguments)
        except httpx2.TransportError as error:
            raise self._not_reached(error) from None

    def _not_reached(self, error: Exception) -> Problem:
        return NotReached(f"The API of {self._where} does not answer: {error or type(error).__name__}.")


def _versions(group: Obj) -> list[str]:
    """The versions of a group, the one that it prefers first: some kinds are in another only."""
    preferred = group["preferredVersion"]["groupVersion"]
    return list(dict.fromkeys([preferred, *(one["groupVersion"] for one in group.get("versions") or ())]))


def _config(installation: Installation) -> SingleConfig:
    try:
        if installation.kubeconfig == IN_CLUSTER:
            found = KubeConfig.from_service_account().get()
        elif installation.kubeconfig is not None:
            found = KubeConfig.from_file(installation.kubeconfig).get()
        else:
            authority = installation.authority
            cluster = Cluster(
                server=installation.url, certificate_auth=str(authority.absolute()) if authority else None
            )
            found = KubeConfig.from_one(cluster=cluster, user=User(token=installation.token or None)).get()
    except (ConfigError, OSError, ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise Problem(f"{installation.where} cannot be used: {error}.", exit_code=2) from None
    if found is None or found.user is None:
        raise Problem(f"{installation.where}: the kubeconfig names no cluster and no user.", exit_code=2)
    return found


def _answer(response: httpx2.Response) -> Obj:
    try:
        body: Obj = msgspec.json.decode(response.content) if response.content else {}
    except msgspec.DecodeError:
        body = {"message": response.text[:500]}
    if response.status_code < 400:
        return body
    message = str(body.get("message") or f"HTTP status {response.status_code}")
    if response.status_code == 401:
        raise Problem(
            f"The API does not know this token: {message}.", "Get one: penstock kubeconfig, or PENSTOCK_TOKEN."
        )
    raise Problem(re.sub(r"\s+", " ", message).rstrip(".") + ".")
