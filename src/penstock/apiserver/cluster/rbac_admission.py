"""Admission plugin for roles and bindings: validation, and protection against privilege escalation.

As in Kubernetes, a user may write a role only if they hold everything that it allows, or may `escalate` it; and a
binding only if they hold everything that its role allows, or may `bind` it.
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

MAX_RULE_CHARACTERS = 1000
"""Characters shown of one missing rule."""
_ROLES, _BINDINGS = ("Role", "ClusterRole"), ("RoleBinding", "ClusterRoleBinding")
_EVERYTHING = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)


class RbacAdmission:
    """Validates the kinds of rbac.authorization.k8s.io."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def default(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> Obj:
        """The object with the API groups that may be left out."""
        if request.kind.group == GROUP and request.kind.kind in _BINDINGS:
            if isinstance(obj.get("roleRef"), dict):
                obj["roleRef"]["apiGroup"] = obj["roleRef"].get("apiGroup") or GROUP
            for subject in obj.get("subjects") or ():
                if isinstance(subject, dict) and subject.get("kind") in ("User", "Group"):
                    subject["apiGroup"] = subject.get("apiGroup") or GROUP
        return obj

    def validate(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> None:
        """Raises 422 or 403."""
        kind = request.kind
        if kind.group != GROUP or kind.kind not in (*_ROLES, *_BINDINGS):
            return
        complaints = _check_role(obj, kind) if kind.kind in _ROLES else _check_binding(obj, old, kind)
        if complaints:
            raise errors.invalid(kind.group, kind.kind, meta(obj)["name"], complaints)
        user = User(request.user, request.groups)
        if user.is_master or (old is not None and _substance(obj) == _substance(old)):
            return
        try:
            if kind.kind in _ROLES:
                self._check_escalation(user, obj, old, request)
            else:
                self._check_bind(user, obj, request)
        except TooManyParts as limit:
            why = f"{_attempt(user)} that cannot be compared with those currently held: {limit}"
            raise errors.forbidden(GROUP, kind.plural, meta(obj)["name"], why) from None

    def _check_escalation(self, user: User, obj: Obj, old: Obj | None, request: AdmissionRequest) -> None:
        kind, name = request.kind, meta(obj)["name"]
        wanted = AccessRequest("escalate", GROUP, kind.plural, namespace=request.namespace, name=name)
        if self._authorizer.decide(user, wanted).allowed:
            return
        self._check_held(user, tuple(obj.get("rules") or ()), name, request)
        if _aggregates(obj) or (old is not None and _aggregates(old)):
            held = self._authorizer.policy.rules_of(user, "")
            if uncovered(held, _EVERYTHING):
                why = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.forbidden(GROUP, kind.plural, name, why)

    def _check_bind(self, user: User, obj: Obj, request: AdmissionRequest) -> None:
        reference = obj["roleRef"]
        plural = "roles" if reference["kind"] == "Role" else "clusterroles"
        wanted = AccessRequest("bind", GROUP, plural, namespace=request.namespace, name=reference["name"])
        if self._authorizer.decide(user, wanted).allowed:
            return
        try:
            rules = self._authorizer.policy.rules_of_role(reference, request.namespace)
        except RoleMissing:
            raise errors.not_found(GROUP, plural, reference["name"]) from None
        self._check_held(user, rules, meta(obj)["name"], request)

    def _check_held(self, user: User, rules: tuple[Obj, ...], name: str, request: AdmissionRequest) -> None:
        missing = uncovered(self._authorizer.policy.rules_of(user, request.namespace), rules)
        if not missing:
            return
        parts = compacted(missing, errors.MAX_COMPLAINTS + 1)
        shown = sorted({_shortened(described(rule)) for rule in parts[: errors.MAX_COMPLAINTS]})
        shown += ["and more"] * (len(parts) > errors.MAX_COMPLAINTS)
        why = f"{_attempt(user)} not currently held:\n" + "\n".join(shown)
        raise errors.forbidden(GROUP, request.kind.plural, name, why)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_RULE_CHARACTERS else text[:MAX_RULE_CHARACTERS] + "…"


def _attempt(user: User) -> str:
    return f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions'


def _substance(obj: Obj) -> Obj:
    """What has to be checked when it changes: not the metadata written by garbage collection and by the server."""
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
    listed = ", ".join(f'"{one}"' for one in supported)
    return (path, "FieldValueNotSupported", f'Unsupported value: "{value or ""}": supported values: {listed}')
