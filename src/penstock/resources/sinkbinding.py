"""SinkBinding: sets the address of a sink in the containers of other objects."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.admission import AdmissionContext, namespace_of
from penstock.resources.conditions import ConditionFinding, conclude, false, true
from penstock.resources.destinations import ResolvedAddress, Unresolved, fill_destination, fill_namespace
from penstock.resources.eventpolicy import NO_IDENTITY, OIDC_IDENTITY_CREATED, SenderIdentity
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, missing, within
from penstock.resources.metadata import ObjectIdentity, controller_of, selector_matches, selector_problem
from penstock.resources.sources import SINK_PROVIDED, check_source, sink_fields

# Model.


FINALIZER = "sinkbindings.sources.knative.dev"


@dataclass(frozen=True)
class Subject:
    """The objects whose Pods get the address: one by name, or all with some labels."""

    api_version: str
    kind: str
    namespace: str
    name: str
    selector: Mapping[str, Any] | None

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def has(self, obj: Obj) -> bool:
        """Whether the object, which is of this kind, is one of them."""
        metadata = obj.get("metadata") or {}
        if self.namespace != (metadata.get("namespace") or self.namespace):
            return False
        if self.name:
            return bool(metadata.get("name") == self.name)
        return self.selector is not None and selector_matches(self.selector, metadata.get("labels"))


@dataclass(frozen=True)
class SinkBinding:
    """The spec of the object, as far as the controllers use it."""

    identity: ObjectIdentity
    subject: Subject
    sink: dict[str, Any]
    overrides: dict[str, Any] | None

    @classmethod
    def read(cls, obj: Obj) -> SinkBinding:
        """The SinkBinding behind a stored object."""
        identity, spec = ObjectIdentity.read(obj), obj.get("spec") or {}
        subject = spec.get("subject") or {}
        return cls(
            identity,
            Subject(
                str(subject.get("apiVersion") or ""),
                str(subject.get("kind") or ""),
                str(subject.get("namespace") or identity.namespace),
                str(subject.get("name") or ""),
                subject.get("selector"),
            ),
            dict(spec.get("sink") or {}),
            spec.get("ceOverrides"),
        )


# Environment.


NAMES = frozenset({"K_SINK", "K_CE_OVERRIDES", "K_CA_CERTS"})
VOLUME_PREFIX = "kne-bundle-"
VOLUME = f"{VOLUME_PREFIX}volume"
MOUNT_PATH = "/knative-custom-certs"
TOKEN_VOLUME, TOKEN_PATH = "oidc-token", "/oidc"
WRITTEN_BY_OTHERS = frozenset({"EventTransform", "IntegrationSink", "Service"})
"""Kinds, of which Service is that of serving.knative.dev, whose controllers compare whole templates."""

_READABLE = 0o644
"""What Kubernetes fills in; a template that differs from the stored one would be written for ever."""

Environment = list[dict[str, str]]


def environment_of(sink: ResolvedAddress, overrides: dict[str, Any] | None) -> Environment:
    """The variables that every container gets."""
    text = json.dumps(overrides, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if overrides else ""
    certificates = [{"name": "K_CA_CERTS", "value": sink.ca_certs}] if sink.ca_certs else []
    return [{"name": "K_SINK", "value": sink.url}, *certificates, {"name": "K_CE_OVERRIDES", "value": text}]


def bound(obj: Obj, environment: Environment, bundles: Collection[str] = (), token: str = "") -> Obj:
    """The object with these variables in its containers, and with the ConfigMaps and the Secret of these names as
    volumes of each, in place of what it has of both; the same object if it has them.

    A Deployment that another object owns stays as it is: that object's controller writes its template, and would
    take out again what is put in here."""
    if (controller_of(obj) or {}).get("kind") in WRITTEN_BY_OTHERS:
        return obj
    changed = copy.deepcopy(obj)
    shown: list[tuple[str, str, list[Obj]]] = [
        (VOLUME, MOUNT_PATH, [{"configMap": {"name": name}} for name in sorted(bundles)]),
        (TOKEN_VOLUME, TOKEN_PATH, [{"secret": {"name": token}}] if token else []),
    ]
    shown = [one for one in shown if one[2]]
    volumes = [{"name": name, "projected": {"sources": some, "defaultMode": _READABLE}} for name, _, some in shown]
    mounts = [{"name": name, "readOnly": True, "mountPath": path} for name, path, _ in shown]
    for container in _containers(changed):
        _replace(container, "env", environment)
        _replace(container, "volumeMounts", mounts)
    if any(True for _ in _containers(changed)):
        _replace(_pod(changed), "volumes", volumes)
    return obj if changed == obj else changed


def unbound(obj: Obj) -> Obj:
    """The object without the variables and the volumes; the same object if it has none."""
    return bound(obj, [])


def bundles_in(obj: Obj) -> list[str]:
    """The names of the ConfigMaps that the object mounts as trust bundles."""
    return [source["configMap"]["name"] for source in _sources(obj, VOLUME) if source.get("configMap")]


def token_in(obj: Obj) -> str:
    """The name of the Secret that the object mounts as its token; empty where it has none."""
    return next((str(one["secret"]["name"]) for one in _sources(obj, TOKEN_VOLUME) if one.get("secret")), "")


def _sources(obj: Obj, name: str) -> list[Obj]:
    volumes = [one for one in _pod(obj).get("volumes") or [] if one.get("name") == name]
    return [source for one in volumes for source in (one.get("projected") or {}).get("sources") or []]


def _replace(holder: Obj, field: str, ours: list[Any]) -> None:
    """Appends `ours` to the foreign entries, in place of our previous ones."""
    before = holder.get(field) or []
    after = [*(one for one in before if not _is_ours(field, str(one.get("name")))), *copy.deepcopy(ours)]
    if after:
        holder[field] = after
    elif before:
        del holder[field]


def _is_ours(field: str, name: str) -> bool:
    return name in NAMES if field == "env" else name == TOKEN_VOLUME or name.startswith(VOLUME_PREFIX)


def _containers(obj: Obj) -> Iterator[Obj]:
    for name in ("initContainers", "containers"):
        yield from _pod(obj).get(name) or []


def _pod(obj: Obj) -> Obj:
    """The Pod's spec in the template; an empty one where there is none."""
    pod: Obj = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    return pod


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace = namespace_of(obj, ctx)
    fill_namespace(obj["spec"].get("subject"), namespace)
    fill_destination(obj["spec"].get("sink"), namespace)


# Validation.


_QUALIFIED = re.compile(r"(?:[a-z0-9.-]+/)?(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LONGEST_LABEL = 63

_NOT_QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_NO_IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_NO_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the SinkBinding."""
    spec = obj.get("spec") or {}
    subject = spec.get("subject") or {}
    errors = within("spec", within("subject", _check_subject(subject)) + check_source(spec))
    namespace = subject.get("namespace")
    if namespace and namespace != namespace_of(obj, ctx):
        errors.append(invalid(namespace, "spec.subject.namespace"))
    return errors


def _check_subject(subject: Obj) -> FieldErrors:
    errors: FieldErrors = []
    for key, pattern, complaint in (
        ("apiVersion", _QUALIFIED, _NOT_QUALIFIED),
        ("kind", _IDENTIFIER, _NO_IDENTIFIER),
        ("namespace", _LABEL, _NO_LABEL),
    ):
        text = subject.get(key) or ""
        if not text:
            errors.append(missing(key))
        elif pattern.fullmatch(text) is None:
            errors.append(invalid(complaint, key))
    return errors + _check_choice(subject.get("name") or "", subject.get("selector"))


def _check_choice(name: str, selector: Obj | None) -> FieldErrors:
    if name and selector is not None:
        return [FieldError("expected exactly one, got both", ("selector", "name"))]
    if selector is not None:
        problem = selector_problem(selector)
        return [] if problem is None else [invalid(problem, "selector")]
    if not name:
        return [FieldError("expected exactly one, got neither", ("selector", "name"))]
    if len(name) > _LONGEST_LABEL:
        return [invalid(f"must be no more than {_LONGEST_LABEL} characters", "name")]
    return [] if _LABEL.fullmatch(name) else [invalid(_NO_LABEL, "name")]


# Status.


AVAILABLE = "SinkBindingAvailable"
OIDC_TOKEN_SECRET_CREATED = "OIDCTokenSecretCreated"  # noqa: S105  # the name of a condition
TRUST_BUNDLE_PROPAGATED = "TrustBundlePropagated"

_NO_OIDC = "authentication-oidc feature disabled"
NO_AUDIENCE = "Sink has no audience defined"


@dataclass(frozen=True)
class SubjectCredentials:
    """As whom the subject sends, and the Secret that holds its token."""

    identity: SenderIdentity = NO_IDENTITY
    secret: str = ""
    """Empty: there is none."""
    problem: str = ""
    """Why there is none, or why it holds an old token."""
    needed: bool = True
    """Whether tokens are sent at all: not to a sink without an audience."""

    def findings(self) -> list[ConditionFinding]:
        """The conditions `OIDCIdentityCreated` and `OIDCTokenSecretCreated`."""
        if not self.needed:
            return [true(OIDC_IDENTITY_CREATED, NO_AUDIENCE), true(OIDC_TOKEN_SECRET_CREATED, NO_AUDIENCE)]
        if self.problem:
            failed = false(OIDC_TOKEN_SECRET_CREATED, "Unable to reconcile OIDC token secret", self.problem)
            return [self.identity.finding(), failed]
        made = true(OIDC_TOKEN_SECRET_CREATED) if self.secret else true(OIDC_TOKEN_SECRET_CREATED, _NO_OIDC)
        return [self.identity.finding(), made]

    def fields(self) -> dict[str, Any]:
        """`auth` and `oidcTokenSecretName` of the status."""
        return {**self.identity.fields(), **({"oidcTokenSecretName": self.secret} if self.secret else {})}


@dataclass(frozen=True)
class BindingProblem:
    """Why the subject is not bound."""

    reason: str
    message: str


@dataclass(frozen=True)
class BindingObservation:
    """What the controller has found out."""

    sink: ResolvedAddress | Unresolved
    problem: BindingProblem | None = None
    missing_bundles: str | None = None
    """Why the namespace has not got every trust bundle."""
    credentials: SubjectCredentials = field(default_factory=SubjectCredentials)


def status_of(obj: Obj, seen: BindingObservation, now: str) -> dict[str, Any]:
    """The SinkBinding's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    if isinstance(seen.sink, Unresolved):
        message = f"Addressable could not be extracted from destination: {seen.sink.message}"
        provided = false(SINK_PROVIDED, "NoAddressable", message)
    else:
        provided = true(SINK_PROVIDED)
    problem = seen.problem
    findings = [
        true(AVAILABLE) if problem is None else false(AVAILABLE, problem.reason, problem.message),
        provided,
        *seen.credentials.findings(),
        _bundles(seen.missing_bundles),
    ]
    return {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **sink_fields(seen.sink),
        **seen.credentials.fields(),
    }


def _bundles(missing: str | None) -> ConditionFinding:
    if missing is None:
        return true(TRUST_BUNDLE_PROPAGATED)
    return false(TRUST_BUNDLE_PROPAGATED, "FailedTrustBundlePropagation", missing)
