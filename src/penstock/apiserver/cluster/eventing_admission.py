"""Admission plugins for the project's kinds: their defaults and validation, warnings for features, and SinkBindings.

Each keeps what it needs from ConfigMaps and SinkBindings as last written (`follow`). What they keep is replaced as a
whole, because the writer's thread reads it while the event loop updates it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.apiserver.access.identity import User
from penstock.apiserver.access.policy import Authorizer
from penstock.apiserver.access.rules import AccessRequest
from penstock.apiserver.documents import decode, meta
from penstock.apiserver.store.storage import Change
from penstock.apiserver.verbs.admission import AdmissionRequest, Denied
from penstock.kube.kinds import Obj
from penstock.resources import features
from penstock.resources.admission import SUBSCRIBE, SYSTEM_NAMESPACE, EventOrigin
from penstock.resources.destinations import ResolvedAddress
from penstock.resources.registry import ADMISSION, Admission, AdmissionContext, AdmissionDenied
from penstock.resources.sinkbinding import Environment, SinkBinding, bound, environment_of
from penstock.resources.trust_bundles import is_bundle
from penstock.settings import Settings

SINK_BINDINGS, CONFIG_MAPS = "sinkbindings.sources.knative.dev", "configmaps"


class EventingAdmission:
    """Defaults and validation of the kinds that have some."""

    namespace = "knative-eventing"

    def __init__(
        self,
        settings: Settings,
        authorizer: Authorizer,
        admissions: Mapping[tuple[str, str], Admission] = ADMISSION,
    ) -> None:
        self._settings, self._authorizer, self._admissions = settings, authorizer, admissions
        self._configmaps: Mapping[str, Mapping[str, str]] = {}

    def load(self, configmaps: Iterable[Obj]) -> None:
        """The ConfigMaps as stored."""
        self._configmaps = {one["metadata"]["name"]: one.get("data") or {} for one in configmaps}

    def follow(self, changes: list[Change]) -> None:
        """Applies committed changes of ConfigMaps."""
        for change in changes:
            if change.resource == CONFIG_MAPS and change.namespace == self.namespace:
                others = {name: data for name, data in self._configmaps.items() if name != change.name}
                if change.type != "DELETED":
                    others[change.name] = decode(change.body).get("data") or {}
                self._configmaps = others

    def default(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> Obj:
        """The object with its kind's defaults."""
        admission = self._admissions.get((request.kind.group, request.kind.kind))
        return admission.default(obj, self._context(request, old)) if admission else obj

    def validate(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> None:
        """Raises Denied with the message of the kind."""
        admission = self._admissions.get((request.kind.group, request.kind.kind))
        if admission is None:
            return
        try:
            admission.validate(obj, old, self._context(request, old))
        except AdmissionDenied as denied:
            raise Denied(str(denied)) from None

    def _context(self, request: AdmissionRequest, old: Obj | None) -> AdmissionContext:
        def may_subscribe(origin: EventOrigin) -> bool:
            user = User(request.user, request.groups)
            wanted = AccessRequest(
                SUBSCRIBE, origin.group, origin.resource, namespace=origin.namespace, name=origin.name
            )
            return self._authorizer.decide(user, wanted).allowed

        return AdmissionContext(
            user=request.user,
            namespace=request.namespace,
            configmaps=self._configmaps,
            settings=self._settings,
            operation=request.operation,
            old=old,
            may_subscribe=may_subscribe,
            warnings=request.warnings,
        )


class FeaturesAdmission:
    """Warns about features in `config-features` that have no effect here. Refuses nothing."""

    def default(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> Obj:
        """The object as it is."""
        return obj

    def validate(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> None:
        """Adds a warning for each feature without effect."""
        target = (request.kind.resource, request.namespace, meta(obj).get("name"))
        if target != (CONFIG_MAPS, SYSTEM_NAMESPACE, features.CONFIG_MAP):
            return
        request.warnings.extend(features.warnings(obj.get("data") or {}))


class SinkBindingAdmission:
    """Binds the subjects of SinkBindings as they are created, and when their Pod template changes.

    So a Deployment does not roll out twice, and a Job, whose template is immutable, is bound at all. The sink and the
    Secret with its token are those that the controller wrote to the SinkBinding's status; the trust bundles are those
    of the namespace.
    """

    def __init__(self) -> None:
        self._bindings: dict[tuple[str, str], Obj] = {}
        self._bundles: frozenset[tuple[str, str]] = frozenset()

    def load(self, bindings: Iterable[Obj], configmaps: Iterable[Obj] = ()) -> None:
        """The SinkBindings and ConfigMaps as stored."""
        self._bindings = {_key(one): one for one in bindings}
        self._bundles = frozenset(_key(one) for one in configmaps if is_bundle(one))

    def follow(self, changes: list[Change]) -> None:
        """Applies committed changes of SinkBindings and trust bundles."""
        for change in changes:
            key = (change.namespace, change.name)
            if change.resource == SINK_BINDINGS:
                others = dict(self._bindings)
                others.pop(key, None)
                if change.type != "DELETED":
                    others[key] = decode(change.body)
                self._bindings = others
            elif change.resource == CONFIG_MAPS:
                is_bundle_now = change.type != "DELETED" and is_bundle(decode(change.body))
                if is_bundle_now != (key in self._bundles):
                    self._bundles = self._bundles ^ {key}

    def default(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> Obj:
        """The object with the sink, the trust bundles and the token of every SinkBinding that is for it."""
        bindings, bundles = self._bindings, self._bundles
        if not bindings or not _is_new(obj, old):
            return obj
        for (namespace, _), binding in bindings.items():
            if namespace == request.namespace:
                environment = _environment_for(obj, binding, request)
                mounted = [name for key, name in bundles if key == namespace]
                token = str((binding.get("status") or {}).get("oidcTokenSecretName") or "")
                obj = obj if environment is None else bound(obj, environment, mounted, token)
        return obj

    def validate(self, obj: Obj, old: Obj | None, request: AdmissionRequest) -> None:
        """Nothing is refused."""


def _key(obj: Obj) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _is_new(obj: Obj, old: Obj | None) -> bool:
    """Whether the request brings a new template. A stored one is left to the controller."""
    template = (obj.get("spec") or {}).get("template") if isinstance(obj.get("spec"), dict) else None
    if not isinstance(template, dict):
        return False
    return old is None or template != (old.get("spec") or {}).get("template")


def _environment_for(obj: Obj, stored: Obj, request: AdmissionRequest) -> Environment | None:
    if stored["metadata"].get("deletionTimestamp"):
        return None
    binding = SinkBinding.read(stored)
    subject, sink = binding.subject, ResolvedAddress.read(stored.get("status") or {}, "sink")
    same_kind = (subject.group, subject.kind) == (request.kind.group, request.kind.kind)
    return environment_of(sink, binding.overrides) if same_kind and sink is not None and subject.has(obj) else None
