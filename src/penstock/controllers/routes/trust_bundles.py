"""Trust bundles as Knative has them: ConfigMaps of the system namespace with authorities that destinations are believed
by, beside those of the system and the `CACerts` of each.

They are no secret, so the data plane hears of them with the routes. What is no certificate is left out and told.
"""

from __future__ import annotations

from penstock.contract.routes import TrustBundle
from penstock.controllers.recorder import EventRecorder
from penstock.controllers.routes.publisher import Publisher
from penstock.kube.kinds import CONFIG_MAP, Key, Obj
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.resources.trust_bundles import bundle_of, is_bundle

OWNER = "TrustBundle"


class TrustBundles:
    """All bundles that there are."""

    def __init__(self, publisher: Publisher, recorder: EventRecorder) -> None:
        self._publisher, self._recorder = publisher, recorder
        self._certificates: dict[Key, str] = {}

    @property
    def certificates(self) -> str:
        """What is trusted by them, in PEM."""
        return "".join(self._certificates[key] for key in sorted(self._certificates))

    def announce(self, key: Key, obj: Obj | None) -> None:
        """A ConfigMap as it is now; to be told by the informer."""
        if key.namespace != SYSTEM_NAMESPACE:
            return
        if obj is None or not is_bundle(obj):
            if self._certificates.pop(key, None) is not None:
                self._publisher.claim((OWNER, key), [])
            return
        found, useless = bundle_of(obj.get("data") or {})
        if useless:
            named = ", ".join(repr(name) for name in useless)
            message = f"What is under {named} is not all certificates in PEM; those that are, are trusted."
            self._recorder.warning(
                {**obj, "apiVersion": "v1", "kind": CONFIG_MAP.kind}, "TrustBundleMalformed", message
            )
        self._certificates[key] = found
        self._publisher.claim((OWNER, key), [TrustBundle(key.name, found)])
