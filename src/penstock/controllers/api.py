"""The Kubernetes API as the controllers use it: a thin layer over lightkube that speaks in plain dictionaries.

Kinds are named by apiVersion and kind. The plural is guessed by Kubernetes' own rule, as Knative does, so that an
object of any kind can be referred to without asking the server what it serves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError
from lightkube.core.resource import ApiInfo, ResourceDef
from lightkube.generic_resource import (
    GenericGlobalResource,
    GenericNamespacedResource,
    GenericNamespacedStatus,
    create_api_info,
)

from penstock.settings import IN_CLUSTER, SERVICE_ACCOUNT

Obj = dict[str, Any]

FIELD_MANAGER = "penstock-controller"
GONE, CONFLICT, NOT_FOUND, FORBIDDEN = 410, 409, 404, 403


_IRREGULAR = {"endpoints": "endpoints", "replay": "replays"}
"""Collections whose names do not follow from those of their kinds."""


class Kind(NamedTuple):
    """A kind of object."""

    api_version: str
    kind: str

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def plural(self) -> str:
        """The name of the collection."""
        name = self.kind.lower()
        if name in _IRREGULAR:
            return _IRREGULAR[name]
        if name.endswith("s"):
            return f"{name}es"
        return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"

    @property
    def queue(self) -> str:
        """The name of the kind's queue: its own, unless another kind has that one too."""
        return "KService" if self == ("serving.knative.dev/v1", "Service") else self.kind

    @property
    def qualified_plural(self) -> str:
        """The collection with its group, as the server's messages have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


BROKER = Kind("eventing.knative.dev/v1", "Broker")
TRIGGER = Kind("eventing.knative.dev/v1", "Trigger")
CHANNEL = Kind("messaging.knative.dev/v1", "Channel")
IN_MEMORY_CHANNEL = Kind("messaging.knative.dev/v1", "InMemoryChannel")
SUBSCRIPTION = Kind("messaging.knative.dev/v1", "Subscription")
SEQUENCE = Kind("flows.knative.dev/v1", "Sequence")
PARALLEL = Kind("flows.knative.dev/v1", "Parallel")
EVENT_POLICY = Kind("eventing.knative.dev/v1alpha1", "EventPolicy")
SERVICE_ACCOUNT_KIND = Kind("v1", "ServiceAccount")
EVENT_TYPE = Kind("eventing.knative.dev/v1beta3", "EventType")
PING_SOURCE = Kind("sources.knative.dev/v1", "PingSource")
API_SERVER_SOURCE = Kind("sources.knative.dev/v1", "ApiServerSource")
CONTAINER_SOURCE = Kind("sources.knative.dev/v1", "ContainerSource")
SINK_BINDING = Kind("sources.knative.dev/v1", "SinkBinding")
SERVICE = Kind("v1", "Service")
SERVING_SERVICE = Kind("serving.knative.dev/v1", "Service")
JOB_SINK = Kind("sinks.knative.dev/v1alpha1", "JobSink")
REPLAY = Kind("penstock.dev/v1alpha1", "Replay")
SECRET = Kind("v1", "Secret")
EVENT_TRANSFORM = Kind("eventing.knative.dev/v1alpha1", "EventTransform")
REQUEST_REPLY = Kind("eventing.knative.dev/v1alpha1", "RequestReply")
CONFIG_MAP = Kind("v1", "ConfigMap")
POD = Kind("v1", "Pod")
ENDPOINTS = Kind("v1", "Endpoints")
EVENT = Kind("v1", "Event")
JOB = Kind("batch/v1", "Job")
CRON_JOB = Kind("batch/v1", "CronJob")
DEPLOYMENT = Kind("apps/v1", "Deployment")
REPLICA_SET = Kind("apps/v1", "ReplicaSet")
ENDPOINT_SLICE = Kind("discovery.k8s.io/v1", "EndpointSlice")
NAMESPACE = Kind("v1", "Namespace")
ACCESS_REVIEW = Kind("authorization.k8s.io/v1", "SubjectAccessReview")

EVERYWHERE = "*"

RECONCILED = frozenset({BROKER, TRIGGER, CHANNEL, IN_MEMORY_CHANNEL, SUBSCRIPTION})
"""The kinds that routes are made of: without seeing them, nothing can be said about what should be published."""


class Key(NamedTuple):
    """Which object of a kind."""

    namespace: str
    name: str


def key_of(obj: Obj) -> Key:
    """The object's key."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


def code_of(error: Exception) -> int | None:
    """The HTTP status behind an error of the API; None where there was no answer."""
    if isinstance(error, ApiError) and error.status.code is not None:
        return int(error.status.code)
    return error.response.status_code if isinstance(error, httpx2.HTTPStatusError) else None


class Api:
    """A connection to the API server."""

    def __init__(self, kubeconfig: Path, user: str | None = None) -> None:
        config = read_config(kubeconfig)
        self._kubeconfig, self.url = kubeconfig, config.cluster.server
        transport = None
        if user is not None:
            verify = verify_cluster(config.cluster, config.user or User(), config.abs_file, trust_env=False)
            transport = _ActingAs(user, httpx2.AsyncHTTPTransport(verify=verify, limits=httpx2.Limits()))
        self._client = AsyncClient(config, field_manager=FIELD_MANAGER, trust_env=False, transport=transport)

    def acting_as(self, user: str) -> Api:
        """A connection of its own on which the server sees that user."""
        return Api(self._kubeconfig, user)

    async def close(self) -> None:
        """Ends every connection."""
        await self._client.close()

    async def list(self, kind: Kind, namespace: str = EVERYWHERE) -> tuple[list[Obj], str]:
        """Every object of the kind, and the resource version to watch from."""
        pages = self._client.list(resource_of(kind), namespace=namespace, chunk_size=500)
        objects = [named(dict(obj), kind) async for obj in pages]
        return objects, pages.resourceVersion

    async def watch(self, kind: Kind, version: str, namespace: str = EVERYWHERE) -> AsyncIterator[tuple[str, Obj]]:
        """Changes after `version`, as (`ADDED` | `MODIFIED` | `DELETED`, object). Raises when the watch breaks."""
        async for change, obj in self._client.watch(resource_of(kind), namespace=namespace, resource_version=version):
            if change != "BOOKMARK":
                yield change, named(dict(obj), kind)

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        """Creates the object."""
        return dict(await self._client.create(resource_of(kind)(obj)))

    async def read(self, kind: Kind, key: Key) -> Obj | None:
        """The object as it is now; None: there is none."""
        try:
            found = await self._client.get(resource_of(kind), key.name, namespace=key.namespace)
        except Exception as error:
            if code_of(error) == NOT_FOUND:
                return None
            raise
        return named(dict(found), kind)

    async def replace(self, kind: Kind, obj: Obj) -> Obj:
        """Stores the object in place of the version it was read at."""
        return dict(await self._client.replace(resource_of(kind)(obj)))

    async def replace_status(self, kind: Kind, obj: Obj) -> Obj:
        """Stores the object's status in place of the version it was read at."""
        return dict(await self._client.replace(resource_of(kind).Status(obj)))

    async def delete(self, kind: Kind, key: Key) -> None:
        """Deletes the object."""
        await self._client.delete(resource_of(kind), key.name, namespace=key.namespace)

    async def may(self, user: str, verb: str, kind: Kind, namespace: str) -> bool:
        """Whether the user may do that to objects of the kind."""
        asked = {"namespace": namespace, "verb": verb, "group": kind.group, "resource": kind.plural}
        review = _AccessReview(spec={"user": user, "resourceAttributes": asked})
        answer = dict(await self._client.create(review))
        return bool((answer.get("status") or {}).get("allowed"))


def read_config(kubeconfig: Path) -> SingleConfig:
    """Where the API is and who asks: from the file, or from what Kubernetes mounts into a Pod. Raises ConfigError."""
    if kubeconfig == IN_CLUSTER:
        given = KubeConfig.from_service_account(SERVICE_ACCOUNT)
    else:
        given = KubeConfig.from_file(kubeconfig)
    config = given.get()
    if config is None or config.user is None:
        raise ConfigError(f"{kubeconfig} names no cluster and no user")
    return config


class _ActingAs(httpx2.AsyncBaseTransport):
    """Says in every request whom it is made for."""

    def __init__(self, user: str, inner: httpx2.AsyncHTTPTransport) -> None:
        self._user, self._inner = user, inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Impersonate-User"] = self._user
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _AccessReview(GenericGlobalResource):
    _api_info = create_api_info(ACCESS_REVIEW.group, "v1", ACCESS_REVIEW.kind, ACCESS_REVIEW.plural)


def named(obj: Obj, kind: Kind) -> Obj:
    """The object with its apiVersion and kind: items of a list of core kinds come without."""
    obj.setdefault("apiVersion", kind.api_version)
    obj.setdefault("kind", kind.kind)
    return obj


@cache
def resource_of(kind: Kind) -> Any:
    """lightkube's class for the kind, kept out of its global registry: a process may hold other clients."""
    version = kind.api_version.rpartition("/")[2]
    info = create_api_info(kind.group, version, kind.kind, kind.plural)
    definition = ResourceDef(kind.group, version, kind.kind)
    status_info = ApiInfo(
        resource=definition, parent=definition, plural=kind.plural, verbs=["get", "patch", "put"], action="status"
    )
    status = type(f"{kind.kind}Status", (GenericNamespacedStatus,), {"_api_info": status_info})
    return type(kind.kind, (GenericNamespacedResource,), {"_api_info": info, "Status": status})
