"""The gate of `config-features`: whoever asks for a feature that has no effect here is told so, by its name."""

from __future__ import annotations

from penstock.apiserver.documents import meta
from penstock.apiserver.verbs.admission import AdmissionRequest
from penstock.kube.kinds import Obj
from penstock.resources import features
from penstock.resources.admission import SYSTEM_NAMESPACE


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
