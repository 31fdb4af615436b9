"""Roles and bindings as they are written: what they must look like, and that nobody gives away more than they have.

As in Kubernetes, a role may only be written by who holds all that it allows, or may `escalate` it; and a binding only
by who holds all that its role allows, or may `bind` it.
"""

from __future__ import annotations

from penstock.apiserver import errors
from penstock.apiserver.access.identity import User
from penstock.apiserver.access.policy import GROUP, Authorizer, RoleMissing
from penstock.apiserver.access.rules import AccessRequest, TooManyParts, compacted, described, quoted, uncovered
from penstock.apiserver.documents import meta
from penstock.apiserver.kinds.registry import ServedKind
from penstock.apiserver.kinds.schema import Complaint
from penstock.apiserver.verbs.admission import AdmissionRequest
from penstock.kube.kinds import Obj

LONGEST_TOLD = 1000
"""Letters of one missing rule in a refusal."""
_ROLES, _BINDINGS = ("Role", "ClusterRole"), ("RoleBinding", "ClusterRoleBinding")
_EVERYTHING = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)


class RbacGate:
    """The rules of the group rbac.authorization.k8s.io; all other kinds pass."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def default(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> Obj:
        """The object with the API groups that may be left out."""
        if occasion.kind.group == GROUP and occasion.kind.kind in _BINDINGS:
            if isinstance(obj.get("roleRef"), dict):
                obj["roleRef"]["apiGroup"] = obj["roleRef"].get("apiGroup") or GROUP
            for subject in obj.get("subjects") or ():
                if isinstance(subject, dict) and subject.get("kind") in ("User", "Group"):
                    subject["apiGroup"] = subject.get("apiGroup") or GROUP
        return obj

    def validate(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> None:
        """Raises 422 or 403."""
        kind = occasion.kind
        if kind.group != GROUP or kind.kind not in (*_ROLES, *_BINDINGS):
            return
        complaints = _check_role(obj, kind) if kind.kind in _ROLES else _check_binding(obj, old, kind)
        if complaints:
            raise errors.invalid(kind.group, kind.kind, meta(obj)["name"], complaints)
        user = User(occasion.user, occasion.groups)
        if user.is_master or (old is not None and _substance(obj) == _substance(old)):
            return
        try:
            if kind.kind in _ROLES:
                self._check_escalation(user, obj, old, occasion)
            else:
                self._check_bind(user, obj, occasion)
        except TooManyParts as limit:
            why = f"{_attempt(user)} that cannot be compared with those currently held: {limit}"
            raise errors.forbidden(GROUP, kind.plural, meta(obj)["name"], why) from None

    def _check_escalation(self, user: User, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> None:
        kind, name = occasion.kind, meta(obj)["name"]
        wanted = AccessRequest("escalate", GROUP, kind.plural, namespace=occasion.namespace, name=name)
        if self._authorizer.decide(user, wanted).allowed:
            return
        self._check_held(user, tuple(obj.get("rules") or ()), name, occasion)
        if _aggregates(obj) or (old is not None and _aggregates(old)):
            held = self._authorizer.policy.rules_of(user, "")
            if uncovered(held, _EVERYTHING):
                why = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.forbidden(GROUP, kind.plural, name, why)

    def _check_bind(self, user: User, obj: Obj, occasion: AdmissionRequest) -> None:
        reference = obj["roleRef"]
        plural = "roles" if reference["kind"] == "Role" else "clusterroles"
        wanted = AccessRequest("bind", GROUP, plural, namespace=occasion.namespace, name=reference["name"])
        if self._authorizer.decide(user, wanted).allowed:
            return
        try:
            rules = self._authorizer.policy.rules_of_role(reference, occasion.namespace)
        except RoleMissing:
            raise errors.not_found(GROUP, plural, reference["name"]) from None
        self._check_held(user, rules, meta(obj)["name"], occasion)

    def _check_held(self, user: User, rules: tuple[Obj, ...], name: str, occasion: AdmissionRequest) -> None:
        missing = uncovered(self._authorizer.policy.rules_of(user, occasion.namespace), rules)
        if not missing:
            return
        parts = compacted(missing, errors.MAX_COMPLAINTS + 1)
        told = sorted({_shortened(described(rule)) for rule in parts[: errors.MAX_COMPLAINTS]})
        told += ["and more"] * (len(parts) > errors.MAX_COMPLAINTS)
        why = f"{_attempt(user)} not currently held:\n" + "\n".join(told)
        raise errors.forbidden(GROUP, occasion.kind.plural, name, why)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TOLD else text[:LONGEST_TOLD] + "…"


def _attempt(user: User) -> str:
    return f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions'


def _substance(obj: Obj) -> Obj:
    """What is judged: everything but the metadata that garbage collection writes, and what the server keeps."""
    ignored = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
    metadata = {key: value for key, value in meta(obj).items() if key not in ignored}
    return {**{key: value for key, value in obj.items() if key != "apiVersion"}, "metadata": metadata}


def _aggregates(role: Obj) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _check_role(role: Obj, kind: ServedKind) -> list[Complaint]:
    complaints: list[Complaint] = []
    for index, rule in enumerate(role.get("rules") or ()):
        complaints += _check_rule(rule, f"rules[{index}]", namespaced=kind.namespaced)
    if role.get("aggregationRule") is not None and not _aggregates(role):
        why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        complaints.append(_required("aggregationRule.clusterRoleSelectors", why))
    return complaints


def _check_rule(rule: Obj, path: str, *, namespaced: bool) -> list[Complaint]:
    complaints = [] if rule.get("verbs") else [_required(f"{path}.verbs", "verbs must contain at least one value")]
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            complaints.append(
                _invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
            )
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            complaints.append(_invalid(f"{path}.nonResourceURLs", urls, why))
        return complaints
    if not rule.get("apiGroups"):
        complaints.append(_required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        complaints.append(_required(f"{path}.resources", "resource rules must supply at least one resource"))
    return complaints


def _check_binding(binding: Obj, old: Obj | None, kind: ServedKind) -> list[Complaint]:
    reference = binding["roleRef"]
    complaints: list[Complaint] = []
    if reference.get("apiGroup") != GROUP:
        complaints.append(_unsupported("roleRef.apiGroup", reference.get("apiGroup"), [GROUP]))
    kinds = ["Role", "ClusterRole"] if kind.namespaced else ["ClusterRole"]
    if reference.get("kind") not in kinds:
        complaints.append(_unsupported("roleRef.kind", reference.get("kind"), kinds))
    if not reference.get("name"):
        complaints.append(_required("roleRef.name", ""))
    for index, subject in enumerate(binding.get("subjects") or ()):
        complaints += _check_subject(subject, f"subjects[{index}]", namespaced=kind.namespaced)
    if old is not None and old.get("roleRef") != reference:
        complaints.append(_invalid("roleRef", reference, "field is immutable"))
    return complaints


def _check_subject(subject: Obj, path: str, *, namespaced: bool) -> list[Complaint]:
    kind, group = subject.get("kind"), subject.get("apiGroup") or ""
    complaints = [] if subject.get("name") else [_required(f"{path}.name", "")]
    if kind == "ServiceAccount":
        if group:
            complaints.append(_unsupported(f"{path}.apiGroup", group, [""]))
        if not namespaced and not subject.get("namespace"):
            complaints.append(_required(f"{path}.namespace", ""))
    elif kind in ("User", "Group"):
        if group != GROUP:
            complaints.append(_unsupported(f"{path}.apiGroup", group, [GROUP]))
    else:
        complaints.append(_unsupported(f"{path}.kind", kind, ["ServiceAccount", "User", "Group"]))
    return complaints


def _required(path: str, why: str) -> Complaint:
    return (path, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def _invalid(path: str, value: object, why: str) -> Complaint:
    return (path, "FieldValueInvalid", f"Invalid value: {value}: {why}")


def _unsupported(path: str, value: object, supported: list[str]) -> Complaint:
    told = ", ".join(f'"{one}"' for one in supported)
    return (path, "FieldValueNotSupported", f'Unsupported value: "{value or ""}": supported values: {told}')
