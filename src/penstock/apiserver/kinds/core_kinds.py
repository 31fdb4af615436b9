"""The core kinds of the embedded server: a table of names, scopes and models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from lightkube.models import (
    apiextensions_v1,
    apps_v1,
    authentication_v1,
    authorization_v1,
    batch_v1,
    coordination_v1,
    core_v1,
    discovery_v1,
    meta_v1,
    networking_v1,
    rbac_v1,
)

from penstock.apiserver.kinds.core_schemas import Definitions
from penstock.apiserver.kinds.registry import ServedKind

_definitions = Definitions()
OBJECT_META = _definitions.add(meta_v1.ObjectMeta)
"""Schema of `metadata`, the same for every kind."""
_RBAC = "rbac.authorization.k8s.io"
_EVENT_FIELDS = (
    "reason",
    "type",
    "source",
    "reportingComponent",
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.resourceVersion",
    "involvedObject.uid",
)
_POD_FIELDS = ("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase", "status.podIP")


def _read_only(group: str, plural: str, model: type[msgspec.Struct], **more: Any) -> ServedKind:
    """A kind that nothing here would act on, so no objects are accepted; `kubectl apply --prune` lists each of them."""
    return _kind(group, plural, model, verbs=("get", "list", "watch"), read_only=True, **more)


def _kind(group: str, plural: str, model: type[msgspec.Struct], **more: Any) -> ServedKind:
    name = model.__name__
    return ServedKind(
        group=group,
        version="v1",
        kind=name,
        plural=plural,
        singular=name.lower(),
        list_kind=name + "List",
        schema=_definitions.add(model),
        definitions=_definitions.schemas,
        **{"subresources": (), "counts_generations": False, **more},
    )


CORE_KINDS: tuple[ServedKind, ...] = (
    _kind(
        "",
        "namespaces",
        core_v1.Namespace,
        namespaced=False,
        short_names=("ns",),
        subresources=("status", "finalize"),
        name_rule="label",
        field_selectors=("status.phase",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    ),
    # There is one, which the server writes itself; see `cluster.node`.
    _kind("", "nodes", core_v1.Node, namespaced=False, short_names=("no",), verbs=("get", "list", "watch")),
    _kind(
        "",
        "pods",
        core_v1.Pod,
        short_names=("po",),
        categories=("all",),
        subresources=("status", "log"),
        field_selectors=_POD_FIELDS,
    ),
    _kind(
        "",
        "services",
        core_v1.Service,
        short_names=("svc",),
        categories=("all",),
        subresources=("status",),
        name_rule="label",
        field_selectors=("spec.clusterIP", "spec.type"),
    ),
    _kind("", "serviceaccounts", core_v1.ServiceAccount, short_names=("sa",), subresources=("token",)),
    _kind("", "configmaps", core_v1.ConfigMap, short_names=("cm",)),
    _kind("", "secrets", core_v1.Secret, field_selectors=("type",)),
    _kind("", "events", core_v1.Event, short_names=("ev",), name_rule="path", field_selectors=_EVENT_FIELDS),
    _kind("", "endpoints", core_v1.Endpoints, short_names=("ep",)),
    _kind(
        "apps",
        "deployments",
        apps_v1.Deployment,
        short_names=("deploy",),
        categories=("all",),
        subresources=("status", "scale"),
        counts_generations=True,
    ),
    _kind(
        "apps",
        "replicasets",
        apps_v1.ReplicaSet,
        short_names=("rs",),
        categories=("all",),
        subresources=("status", "scale"),
        counts_generations=True,
        field_selectors=("status.replicas",),
    ),
    _kind(
        "batch",
        "jobs",
        batch_v1.Job,
        categories=("all",),
        subresources=("status",),
        counts_generations=True,
        field_selectors=("status.successful",),
    ),
    _kind(
        "batch",
        "cronjobs",
        batch_v1.CronJob,
        short_names=("cj",),
        categories=("all",),
        subresources=("status",),
        counts_generations=True,
    ),
    _read_only("", "persistentvolumeclaims", core_v1.PersistentVolumeClaim, short_names=("pvc",)),
    _read_only("", "persistentvolumes", core_v1.PersistentVolume, namespaced=False, short_names=("pv",)),
    _read_only("", "replicationcontrollers", core_v1.ReplicationController, short_names=("rc",)),
    _read_only("apps", "daemonsets", apps_v1.DaemonSet, short_names=("ds",)),
    _read_only("apps", "statefulsets", apps_v1.StatefulSet, short_names=("sts",)),
    _read_only("networking.k8s.io", "ingresses", networking_v1.Ingress, short_names=("ing",)),
    _kind("discovery.k8s.io", "endpointslices", discovery_v1.EndpointSlice),
    _kind("coordination.k8s.io", "leases", coordination_v1.Lease),
    _kind(_RBAC, "roles", rbac_v1.Role, name_rule="path"),
    _kind(_RBAC, "rolebindings", rbac_v1.RoleBinding, name_rule="path"),
    _kind(_RBAC, "clusterroles", rbac_v1.ClusterRole, namespaced=False, name_rule="path"),
    _kind(_RBAC, "clusterrolebindings", rbac_v1.ClusterRoleBinding, namespaced=False, name_rule="path"),
    _kind(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        apiextensions_v1.CustomResourceDefinition,
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=("status",),
        counts_generations=True,
    ),
    _kind(
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        authorization_v1.SelfSubjectAccessReview,
        namespaced=False,
        verbs=("create",),
    ),
    _kind(
        "authorization.k8s.io",
        "subjectaccessreviews",
        authorization_v1.SubjectAccessReview,
        namespaced=False,
        verbs=("create",),
    ),
    _kind(
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        authorization_v1.LocalSubjectAccessReview,
        verbs=("create",),
    ),
    _kind(
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
        authorization_v1.SelfSubjectRulesReview,
        namespaced=False,
        verbs=("create",),
    ),
    _kind(
        "authentication.k8s.io",
        "tokenreviews",
        authentication_v1.TokenReview,
        namespaced=False,
        verbs=("create",),
    ),
    _kind(
        "authentication.k8s.io",
        "selfsubjectreviews",
        authentication_v1.SelfSubjectReview,
        namespaced=False,
        verbs=("create",),
    ),
)
DEFINITIONS: Mapping[str, Any] = _definitions.schemas
"""Every schema that core kinds refer to."""
