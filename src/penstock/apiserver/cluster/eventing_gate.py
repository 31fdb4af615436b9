"""The gate of the project's own kinds: their admission, with the ConfigMaps that configure it as last written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.apiserver.access.identity import User
from penstock.apiserver.access.policy import Authorizer
from penstock.apiserver.access.rules import AccessRequest
from penstock.apiserver.documents import decode
from penstock.apiserver.store.storage import Change
from penstock.apiserver.verbs.admission import AdmissionRequest, Denied
from penstock.kube.kinds import Obj
from penstock.resources.admission import SUBSCRIBE, EventOrigin
from penstock.resources.registry import ADMISSION, Admission, AdmissionContext, AdmissionDenied
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
        )
