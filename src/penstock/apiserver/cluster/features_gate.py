"""The gate of `config-features`: whoever asks for a feature that has no effect here is told so, by its name."""

from __future__ import annotations

from penstock.apiserver.documents import Obj, meta
from penstock.apiserver.verbs.admission import AdmissionRequest, Denied
from penstock.resources import features
from penstock.resources.admission import SYSTEM_NAMESPACE


class FeaturesGate:
    """Refuses what would promise safety that is not there, warns of the rest."""

    def default(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> Obj:
        """The object as it is."""
        return obj

    def validate(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> None:
        """Raises Denied for features that must not be believed to be on; adds warnings for others without effect."""
        here = (occasion.kind.resource, occasion.namespace, meta(obj).get("name"))
        if here != ("configmaps", SYSTEM_NAMESPACE, features.CONFIG_MAP):
            return
        data = obj.get("data") or {}
        refused = features.refused(data)
        if refused:
            raise Denied(
                f'admission webhook "{features.WEBHOOK}" denied the request: validation failed: {"; ".join(refused)}'
            )
        occasion.warnings.extend(features.warnings(data))
