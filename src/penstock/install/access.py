"""RBAC of an installation: each role of penstock gets only the rights that its requests need."""

from __future__ import annotations

from penstock.install.objects import LABELS, Manifest, metadata
from penstock.kube.kinds import Obj
from penstock.resources.admission import CONTROLLER_USER, SUBSCRIBE, SYSTEM_NAMESPACE
from penstock.webhook import certificates

GROUP = "rbac.authorization.k8s.io"
CONTROL = CONTROLLER_USER.rpartition(":")[2]
"""The ServiceAccount of the controllers; the rules of some kinds contain this name."""
INGRESS, WEBHOOK, PIPELINE = "penstock-ingress", "penstock-webhook", "penstock-pipeline"
CONSOLE, HISTORY = "penstock-console", "penstock-history"

WATCH = ["list", "watch"]


def rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> Obj:
    """One rule of a role."""
    made: Obj = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return {**made, "resourceNames": names} if names else made


EVENTING, MESSAGING, FLOWS, SOURCES = (
    "eventing.knative.dev",
    "messaging.knative.dev",
    "flows.knative.dev",
    "sources.knative.dev",
)
_SOURCES = ["apiserversources", "containersources", "pingsources", "sinkbindings"]
CONTROL_RULES = [
    rule(EVENTING, ["brokers", "triggers"], WATCH),
    rule(EVENTING, ["eventtypes"], ["create", *WATCH]),
    rule(EVENTING, ["eventpolicies"], WATCH),
    rule(EVENTING, ["brokers/status", "triggers/status", "eventtypes/status", "eventpolicies/status"], ["update"]),
    rule(MESSAGING, ["channels", "inmemorychannels"], ["create", "delete", "update", *WATCH]),
    rule(MESSAGING, ["subscriptions"], ["create", "delete", "update", *WATCH]),
    rule(MESSAGING, ["channels/status", "inmemorychannels/status", "subscriptions/status"], ["update"]),
    rule(FLOWS, ["sequences", "parallels"], WATCH),
    rule(FLOWS, ["sequences/status", "parallels/status"], ["update"]),
    rule(SOURCES, _SOURCES, WATCH),
    rule(SOURCES, [f"{one}/status" for one in _SOURCES], ["update"]),
    rule("penstock.dev", ["replays"], WATCH),
    rule("penstock.dev", ["replays/status"], ["update"]),
    rule("", ["configmaps", "services"], WATCH),
    rule("", ["events"], ["create", "update"]),
    rule("", ["namespaces"], WATCH),
    rule("", ["serviceaccounts"], ["create", "delete", *WATCH]),
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
]
"""The controllers: the kinds that they reconcile, and the objects that they create."""
CONTROL_BINDING_RULES = [
    rule(SOURCES, ["sinkbindings"], ["create", "delete", "update"]),
    rule("apps", ["deployments"], ["create", "delete", "update"]),
    rule("apps", ["deployments", "daemonsets", "statefulsets", "replicasets"], ["update", *WATCH]),
    rule("batch", ["jobs"], ["update", *WATCH]),
    rule("", ["configmaps"], ["create", "delete", "update"]),
]
"""ContainerSources are Deployments with SinkBindings; these write the sink into Pod templates, and copy the trust
bundles into their namespaces."""
CONTROL_WATCHING_RULES = [rule("", ["serviceaccounts"], ["impersonate"])]
"""An ApiServerSource watches as its ServiceAccount, so that it never sees more than that may."""
LEASE_RULES = [rule("coordination.k8s.io", ["leases"], ["create", "get", "update"])]
"""For leader election among the replicas."""
EXECUTOR_RULES = [
    rule("", ["pods"], ["create", "delete", "deletecollection", "get", "list", "watch"]),
    rule("", ["configmaps"], ["create", "delete", "deletecollection", "get", "list"]),
    rule("", ["persistentvolumeclaims"], ["deletecollection", "list"]),
    rule("", ["services"], ["deletecollection", "list"]),
]
"""Spark's drivers create Pods for their executors, in their own namespace only, and delete them at their end."""
WEBHOOK_RULES = [
    rule("admissionregistration.k8s.io", ["mutatingwebhookconfigurations"], ["get", "update"], [certificates.MUTATING]),
    rule(
        "admissionregistration.k8s.io",
        ["validatingwebhookconfigurations"],
        ["get", "update"],
        [certificates.VALIDATING],
    ),
    rule(
        "apiextensions.k8s.io", ["customresourcedefinitions"], ["get", "update"], certificates.converted_definitions()
    ),
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
]
"""It also checks whether a user may subscribe to a Broker or channel in another namespace."""
WEBHOOK_LOCAL_RULES = [
    rule("", ["secrets"], ["get", "update"], [certificates.CERTIFICATES_SECRET]),
    rule("", ["configmaps"], WATCH),
]

ADDRESSABLE = "duck.knative.dev/addressable"
"""The label of ClusterRoles that let the controllers read a kind that can be a subscriber, as in Knative."""
SUBSCRIBABLE = "duck.knative.dev/crossnamespace-subscribable"
"""The label of ClusterRoles that are part of `crossnamespace-subscriber`, as in Knative."""


def access() -> list[Manifest]:
    """ServiceAccounts, roles and bindings."""
    return [
        *(Manifest(_account(name)) for name in (CONTROL, INGRESS, WEBHOOK, PIPELINE)),
        # Without any rights: the console uses the token of its user, who sees what RBAC allows.
        Manifest(_account(CONSOLE), ("console.enabled",)),
        Manifest(_account(HISTORY), ("history.enabled",)),
        *_cluster_wide("penstock-control", CONTROL, CONTROL_RULES),
        *_cluster_wide("penstock-control-bindings", CONTROL, CONTROL_BINDING_RULES, ("sink_bindings",)),
        *_cluster_wide("penstock-control-impersonation", CONTROL, CONTROL_WATCHING_RULES, ("api_server_sources",)),
        *_local("penstock-control", CONTROL, LEASE_RULES),
        *_cluster_wide("penstock-webhook", WEBHOOK, WEBHOOK_RULES),
        *_local("penstock-webhook", WEBHOOK, WEBHOOK_LOCAL_RULES),
        *_local("penstock-pipeline", PIPELINE, LEASE_RULES),
        *_local("penstock-executors", PIPELINE, EXECUTOR_RULES, ("spark_executors",)),
        *_local("penstock-history-executors", HISTORY, EXECUTOR_RULES, ("spark_executors", "history.enabled")),
        *_addressables(),
        *_subscribers(),
        *_for_users(),
    ]


def _account(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name)}


def _cluster_wide(name: str, account: str, rules: list[Obj], choices: tuple[str, ...] = ()) -> list[Manifest]:
    """The role always exists: where it is not bound in the whole cluster, users may bind it in some namespaces."""
    details = metadata(name, namespaced=False)
    role = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": details, "rules": rules}
    return [Manifest(role), Manifest(_binding("ClusterRoleBinding", details, "ClusterRole", name, account), choices)]


def _local(name: str, account: str, rules: list[Obj], choices: tuple[str, ...] = ()) -> list[Manifest]:
    details = metadata(name)
    role = {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": details, "rules": rules}
    return [Manifest(role, choices), Manifest(_binding("RoleBinding", details, "Role", name, account), choices)]


def _binding(kind: str, details: Obj, role_kind: str, role: str, account: str) -> Obj:
    subject = {"kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": details,
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
        "subjects": [subject],
    }


def _addressables() -> list[Manifest]:
    """The kinds that events can be sent to. For another kind, users add a ClusterRole with the label."""
    collected = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": metadata("addressable-resolver", namespaced=False),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {ADDRESSABLE: "true"}}]},
    }
    details = metadata("addressable-resolver", namespaced=False)
    services = [rule("serving.knative.dev", ["services", "routes"], WATCH)]
    return [
        Manifest(collected),
        Manifest(_binding("ClusterRoleBinding", details, "ClusterRole", "addressable-resolver", CONTROL)),
        Manifest(_collected("serving-addressable-resolver", {ADDRESSABLE: "true"}, services)),
    ]


def _subscribers() -> list[Manifest]:
    """Roles for users who may subscribe to events of other namespaces, as in Knative. penstock does not bind them."""
    collected = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": metadata("crossnamespace-subscriber", namespaced=False),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {SUBSCRIBABLE: "true"}}]},
    }
    parts = (
        ("channel", MESSAGING, "channels"),
        ("broker", EVENTING, "brokers"),
        ("imc", MESSAGING, "inmemorychannels"),
    )
    return [
        Manifest(collected),
        *(
            Manifest(_collected(f"{name}-subscriber", {SUBSCRIBABLE: "true"}, [rule(group, [resource], [SUBSCRIBE])]))
            for name, group, resource in parts
        ),
    ]


def _for_users() -> list[Manifest]:
    """The rights for these kinds in Kubernetes' roles for users: admin, edit and view."""
    groups = [EVENTING, MESSAGING, FLOWS, SOURCES, "penstock.dev"]
    verbs = {
        "admin": ["*"],
        "edit": ["create", "update", "patch", "delete"],
        "view": ["get", "list", "watch"],
    }
    return [
        Manifest(
            _collected(
                f"knative-eventing-namespaced-{name}",
                {f"{GROUP}/aggregate-to-{name}": "true"},
                [{"apiGroups": groups, "resources": ["*"], "verbs": allowed}],
            )
        )
        for name, allowed in verbs.items()
    ]


def _collected(name: str, labels: dict[str, str], rules: list[Obj]) -> Obj:
    details = {"name": name, "labels": {**LABELS, **labels}}
    return {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": details, "rules": rules}
