"""The gate of the project's own kinds: their admission, with the ConfigMaps that configure it as last written."""

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


class EventingGate:
    """Defaults and validation of the kinds that have some; all others pass."""

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
        """Takes in changed ConfigMaps; the mapping is replaced as a whole, since the writer's thread reads it."""
        for change in changes:
            if change.resource == "configmaps" and change.namespace == self.namespace:
                others = {name: data for name, data in self._configmaps.items() if name != change.name}
                if change.type != "DELETED":
                    others[change.name] = decode(change.body).get("data") or {}
                self._configmaps = others

    def default(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> Obj:
        """The object with its kind's defaults."""
        admission = self._admissions.get((occasion.kind.group, occasion.kind.kind))
        return admission.default(obj, self._context(occasion, old)) if admission else obj

    def validate(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> None:
        """Raises Denied in the words of the kind."""
        admission = self._admissions.get((occasion.kind.group, occasion.kind.kind))
        if admission is None:
            return
        try:
            admission.validate(obj, old, self._context(occasion, old))
        except AdmissionDenied as denied:
            raise Denied(str(denied)) from None

    def _context(self, occasion: AdmissionRequest, old: Obj | None) -> AdmissionContext:
        def may_subscribe(origin: EventOrigin) -> bool:
            user = User(occasion.user, occasion.groups)
            wanted = AccessRequest(
                SUBSCRIBE, origin.group, origin.resource, namespace=origin.namespace, name=origin.name
            )
            return self._authorizer.decide(user, wanted).allowed

        return AdmissionContext(
            user=occasion.user,
            namespace=occasion.namespace,
            configmaps=self._configmaps,
            settings=self._settings,
            operation=occasion.operation,
            old=old,
            may_subscribe=may_subscribe,
            warnings=occasion.warnings,
        )


# The gate of `config-features`: whoever asks for a feature that has no effect here is told so, by its name.


class FeaturesGate:
    """Warns of what has no effect, and refuses nothing."""

    def default(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> Obj:
        """The object as it is."""
        return obj

    def validate(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> None:
        """Adds a warning for each feature without effect."""
        here = (occasion.kind.resource, occasion.namespace, meta(obj).get("name"))
        if here != ("configmaps", SYSTEM_NAMESPACE, features.CONFIG_MAP):
            return
        occasion.warnings.extend(features.warnings(obj.get("data") or {}))


# The gate of SinkBindings: an object that one is for has the sink in its Pod template from the moment it is stored.
# So a Deployment need not roll out twice, and a Job, whose template never changes, is bound at all. The sink is the
# one that the controller has found and written into the SinkBinding's status, and so is the Secret with its token;
# the trust bundles are those of the namespace.

RESOURCE, CONFIG_MAPS = "sinkbindings.sources.knative.dev", "configmaps"


class BindingGate:
    """Binds objects as they are created, and when their template is changed."""

    def __init__(self) -> None:
        self._bindings: dict[tuple[str, str], Obj] = {}
        self._bundles: frozenset[tuple[str, str]] = frozenset()

    def load(self, bindings: Iterable[Obj], configmaps: Iterable[Obj] = ()) -> None:
        """The SinkBindings and ConfigMaps as stored."""
        self._bindings = {_place(one): one for one in bindings}
        self._bundles = frozenset(_place(one) for one in configmaps if is_bundle(one))

    def follow(self, changes: list[Change]) -> None:
        """Takes in changed SinkBindings and trust bundles; what is kept is replaced as a whole, since the writer's
        thread reads it."""
        for change in changes:
            place = (change.namespace, change.name)
            if change.resource == RESOURCE:
                others = dict(self._bindings)
                others.pop(place, None)
                if change.type != "DELETED":
                    others[place] = decode(change.body)
                self._bindings = others
            elif change.resource == CONFIG_MAPS:
                there = change.type != "DELETED" and is_bundle(decode(change.body))
                if there != (place in self._bundles):
                    self._bundles = self._bundles ^ {place}

    def default(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> Obj:
        """The object with the sink, the trust bundles and the token of every SinkBinding that is for it."""
        bindings, bundles = self._bindings, self._bundles
        if not bindings or not _is_new(obj, old):
            return obj
        for (namespace, _), binding in bindings.items():
            if namespace == occasion.namespace:
                environment = _environment_for(obj, binding, occasion)
                mounted = [name for place, name in bundles if place == namespace]
                token = str((binding.get("status") or {}).get("oidcTokenSecretName") or "")
                obj = obj if environment is None else bound(obj, environment, mounted, token)
        return obj

    def validate(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> None:
        """Nothing is refused."""


def _place(obj: Obj) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _is_new(obj: Obj, old: Obj | None) -> bool:
    """Whether the template is one that nobody has seen; what is stored is the controller's to change."""
    template = (obj.get("spec") or {}).get("template") if isinstance(obj.get("spec"), dict) else None
    if not isinstance(template, dict):
        return False
    return old is None or template != (old.get("spec") or {}).get("template")


def _environment_for(obj: Obj, stored: Obj, occasion: AdmissionRequest) -> Environment | None:
    if stored["metadata"].get("deletionTimestamp"):
        return None
    binding = SinkBinding.read(stored)
    subject, sink = binding.subject, ResolvedAddress.read(stored.get("status") or {}, "sink")
    same_kind = (subject.group, subject.kind) == (occasion.kind.group, occasion.kind.kind)
    return environment_of(sink, binding.overrides) if same_kind and sink is not None and subject.has(obj) else None
