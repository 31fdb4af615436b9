"""Kinds of the Kubernetes API, and keys of their objects.

A kind is an apiVersion and a name. The plural is derived by Kubernetes' own rule, as in Knative, so that objects of any
kind can be referred to without discovery requests.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

Obj = dict[str, Any]
"""An object of the API, as JSON has it."""

_IRREGULAR = {"endpoints": "endpoints", "replay": "replays"}
"""Plurals that do not follow the rule."""
_WITHOUT_NAMESPACES = frozenset(
    {
        ("", "Namespace"),
        ("", "Node"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("authentication.k8s.io", "TokenReview"),
        ("authorization.k8s.io", "SubjectAccessReview"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    }
)
"""By group and kind. Every other kind is assumed to be namespaced."""


class Collection(Protocol):
    """What a client needs to know about a kind."""

    @property
    def api_version(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def plural(self) -> str: ...

    @property
    def namespaced(self) -> bool: ...


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
    def namespaced(self) -> bool:
        """Whether its objects are in namespaces."""
        return (self.group, self.kind) not in _WITHOUT_NAMESPACES

    @property
    def queue(self) -> str:
        """The name of the kind's work queue: the kind, unless two kinds share it."""
        return "KService" if self == ("serving.knative.dev/v1", "Service") else self.kind

    @property
    def qualified_plural(self) -> str:
        """The collection with its group, as in messages of the server."""
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
INTEGRATION_SOURCE = Kind("sources.knative.dev/v1alpha1", "IntegrationSource")
SINK_BINDING = Kind("sources.knative.dev/v1", "SinkBinding")
SERVICE = Kind("v1", "Service")
SERVING_SERVICE = Kind("serving.knative.dev/v1", "Service")
JOB_SINK = Kind("sinks.knative.dev/v1alpha1", "JobSink")
INTEGRATION_SINK = Kind("sinks.knative.dev/v1alpha1", "IntegrationSink")
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
LEASE = Kind("coordination.k8s.io/v1", "Lease")
TOKEN_REVIEW = Kind("authentication.k8s.io/v1", "TokenReview")
ACCESS_REVIEW = Kind("authorization.k8s.io/v1", "SubjectAccessReview")

RECONCILED = frozenset({BROKER, TRIGGER, CHANNEL, IN_MEMORY_CHANNEL, SUBSCRIPTION})
"""The kinds that routes are made of: routes can be published only when all of them can be read."""


class Key(NamedTuple):
    """Namespace and name of an object of a kind."""

    namespace: str
    name: str


def key_of(obj: Obj) -> Key:
    """The object's key."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])
