"""The Kubernetes API for commands and the console: short calls, plain dictionaries, and errors as Problems."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.kube.client import Client
from penstock.kube.config import ClusterConfig, ConfigError, config_of, read_config, with_token
from penstock.kube.errors import Forbidden, KubeError, NotFound, Unauthorized, Unavailable
from penstock.kube.kinds import Key, Obj
from penstock.kube.paths import NotASegment, api_path, version_path
from penstock.operations.installation import Installation
from penstock.resources.delivery import PAUSED
from penstock.resources.metadata import is_object_name
from penstock.runtime.errors import UserError

FIELD_MANAGER = "penstock-cli"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass(frozen=True)
class Resource:
    """A kind of the server."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()

    def path(self, namespace: str, name: str | None = None) -> str:
        """The path of its objects, or of one. Raises UserError for an invalid name."""
        with self._naming():
            return api_path(self.api_version, self.plural, self.within(namespace), name)

    def key(self, namespace: str, name: str) -> Key:
        """The key of an object; without a namespace if the kind has none. Raises UserError as `path` does."""
        self.path(namespace, name)
        return Key(namespace if self.namespaced else "", name)

    def within(self, namespace: str) -> str | None:
        """The namespace for paths; None for all namespaces, or if the kind has none."""
        return (namespace or None) if self.namespaced else None

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except NotASegment as error:
            raise UserError(f"{self.kind}: {error}", exit_code=2) from None


BROKERS = Resource("eventing.knative.dev/v1", "Broker", "brokers", True)
TRIGGERS = Resource("eventing.knative.dev/v1", "Trigger", "triggers", True)
CHANNELS = Resource("messaging.knative.dev/v1", "Channel", "channels", True)
IN_MEMORY_CHANNELS = Resource("messaging.knative.dev/v1", "InMemoryChannel", "inmemorychannels", True)
SUBSCRIPTIONS = Resource("messaging.knative.dev/v1", "Subscription", "subscriptions", True)

_ACCOUNTS = Resource("v1", "ServiceAccount", "serviceaccounts", True)
REPLAYS = Resource("penstock.dev/v1alpha1", "Replay", "replays", True)

ROUTES = (TRIGGERS, SUBSCRIPTIONS)
TARGETS = (BROKERS, CHANNELS, IN_MEMORY_CHANNELS)


class NotThere(UserError):
    """The object does not exist."""


class NotReached(UserError):
    """The API is unreachable."""


class UnknownToken(UserError):
    """The API rejected the token: it is wrong, revoked or expired."""


class NotAllowed(UserError):
    """The user lacks the permission."""


class ClusterApi:
    """A connection to the API of an installation. Every call raises UserError if it fails."""

    def __init__(self, installation: Installation, *, token: str | None = None) -> None:
        """A token replaces the user of the kubeconfig."""
        self._where = installation.where
        config = _config(installation)
        if token is not None:
            config = with_token(config, token)
        self.namespace = os.environ.get("PENSTOCK_NAMESPACE") or config.namespace
        """The default namespace."""
        try:
            self._client = Client(config, field_manager=FIELD_MANAGER)
        except ConfigError as error:
            raise _unusable(installation, error) from None

    def __enter__(self) -> ClusterApi:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()

    def read(self, path: str) -> Obj | None:
        """The object at a path, or None."""
        with self._problems(), contextlib.suppress(NotFound):
            return self._client.fetch(path)
        return None

    def get(self, resource: Resource, namespace: str, name: str) -> Obj:
        """An object. Raises NotThere if it does not exist."""
        key = resource.key(namespace, name)
        with self._problems(), self._missing(f"{resource.kind} {namespace}/{name}"):
            return self._client.get(resource, key)

    def find(self, resource: Resource, namespace: str, name: str) -> Obj | None:
        """An object; None where it does not exist."""
        with contextlib.suppress(NotThere):
            return self.get(resource, namespace, name)
        return None

    def all(self, resource: Resource, namespace: str = "") -> list[Obj]:
        """The objects of a namespace, or of all."""
        resource.path(namespace)
        with self._problems():
            return self._client.list(resource, resource.within(namespace)).objects

    def table(self, resource: Resource, namespace: str, name: str = "") -> Obj:
        """Objects as the server prints them."""
        path = resource.path(namespace, name or None)
        with self._problems():
            if not name:
                return self._client.fetch(path, TABLE)
            with self._missing(f"{resource.kind} {namespace}/{name}"):
                return self._client.fetch(path, TABLE)

    def create(self, resource: Resource, namespace: str, obj: Obj) -> Obj:
        """Creates an object."""
        resource.path(namespace)
        with self._problems():
            return self._client.create(resource, obj, namespace)

    def apply(self, resource: Resource, namespace: str, obj: Obj) -> tuple[Obj, bool]:
        """Creates or updates the object; whether it was created."""
        resource.path(namespace, obj["metadata"]["name"])
        with self._problems():
            return self._client.apply(resource, obj, namespace, force=True)

    def change_spec(self, resource: Resource, namespace: str, name: str, spec: Obj) -> Obj:
        """Changes the fields of a spec that are given; the others stay as they are."""
        key = resource.key(namespace, name)
        with self._problems(), self._missing(f"{resource.kind} {namespace}/{name}"):
            return self._client.patch(resource, key, {"spec": spec})

    def annotate(
        self, resource: Resource, namespace: str, name: str, annotations: Mapping[str, str | None], version: str = ""
    ) -> Obj:
        """Changes annotations of an object, if it still has the version; None removes one."""
        metadata = {"annotations": annotations, **({"resourceVersion": version} if version else {})}
        key = resource.key(namespace, name)
        with self._problems(), self._missing(f"{resource.kind} {namespace}/{name}"):
            return self._client.patch(resource, key, {"metadata": metadata})

    def token(self, namespace: str, account: str, audience: str) -> str:
        """A token of a ServiceAccount for an audience, valid as long as the server decides."""
        if not is_object_name(account):
            raise UserError(f"{account!r} is not a valid name of a ServiceAccount.", exit_code=2)
        key = _ACCOUNTS.key(namespace, account)
        with self._problems(), self._missing(f"ServiceAccount {namespace}/{account}"):
            return str(self._client.token(key, {"audiences": [audience]})["token"])

    def delete(self, resource: Resource, namespace: str, name: str) -> bool:
        """Deletes an object; false if it did not exist."""
        key = resource.key(namespace, name)
        with self._problems(), contextlib.suppress(NotFound):
            self._client.delete(resource, key)
            return True
        return False

    def resources(self) -> list[Resource]:
        """All kinds of the server, each in the preferred version of its group, or in the first that has it."""
        with self._problems():
            groups = self._client.fetch("/apis").get("groups") or []
        found: dict[tuple[str, str], Resource] = {}
        for version in ("v1", *(version for group in groups for version in _versions(group))):
            path = version_path(version)
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
        raise UserError(f"Unknown kind {word}.", "List the kinds: penstock get --kinds", exit_code=2)

    def resource_of(self, obj: Obj) -> Resource:
        """The kind of an object. Raises UserError if the server does not have it."""
        version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
        try:
            listed = (self.read(version_path(version)) or {}).get("resources") or []
        except NotASegment:
            listed = []
        for one in listed if kind else []:
            if one["kind"] == kind and "/" not in one["name"]:
                return Resource(version, kind, one["name"], one["namespaced"])
        raise UserError(f'no matches for kind "{kind}" in version "{version}"')

    @contextlib.contextmanager
    def _missing(self, what: str) -> Iterator[None]:
        try:
            yield
        except NotFound:
            raise NotThere(f"{what} does not exist in {self._where}.") from None

    @contextlib.contextmanager
    def _problems(self) -> Iterator[None]:
        """Turns errors of the client into Problems."""
        try:
            yield
        except Unavailable as error:
            raise NotReached(f"The API of {self._where} is unreachable: {error}.") from None
        except Unauthorized as error:
            raise UnknownToken(
                f"The API rejected the token: {error}.", "Get a new one: penstock kubeconfig, or set PENSTOCK_TOKEN."
            ) from None
        except KubeError as error:
            text = re.sub(r"\s+", " ", str(error)).rstrip(".") + "."
            raise NotAllowed(text) if isinstance(error, Forbidden) else UserError(text) from None


def _versions(group: Obj) -> list[str]:
    """The versions of a group, the preferred one first: some kinds exist in another only."""
    preferred = group["preferredVersion"]["groupVersion"]
    return list(dict.fromkeys([preferred, *(one["groupVersion"] for one in group.get("versions") or ())]))


def _config(installation: Installation) -> ClusterConfig:
    try:
        if installation.kubeconfig is not None:
            return read_config(installation.kubeconfig)
        return config_of(installation.url, authority=installation.authority, token=installation.token)
    except ConfigError as error:
        raise _unusable(installation, error) from None


def _unusable(installation: Installation, error: ConfigError) -> UserError:
    return UserError(f"The configuration of {installation.where} cannot be used: {error}.", exit_code=2)


def is_paused(route: Obj) -> bool:
    """Whether its deliveries are paused."""
    return (route["metadata"].get("annotations") or {}).get(PAUSED) == "true"


def set_paused(api: ClusterApi, resource: Resource, route: Obj, paused: bool) -> Obj:
    """Pauses or resumes the deliveries of a route. Raises UserError."""
    metadata = route["metadata"]
    return api.annotate(resource, metadata["namespace"], metadata["name"], {PAUSED: "true" if paused else None})
