"""Trust bundles as Knative has them: ConfigMaps of the system namespace with authorities that destinations are believed
by, beside those of the system and the `CACerts` of each.

They are no secret, so the data plane hears of them with the routes. What is no certificate is left out and told.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.certificates import certificates_in
from penstock.contract.routes import TrustBundle
from penstock.controllers.api import CONFIG_MAP, Key, Obj
from penstock.controllers.recorder import EventRecorder
from penstock.controllers.routes.publisher import Publisher
from penstock.resources.admission import SYSTEM_NAMESPACE

LABEL = "networking.knative.dev/trust-bundle"
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
        labels = ((obj or {}).get("metadata") or {}).get("labels") or {}
        if obj is None or labels.get(LABEL) != "true":
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


def bundle_of(data: Mapping[str, str]) -> tuple[str, list[str]]:
    """The certificates in a bundle, and the keys under which there is something else."""
    found, useless = "", list[str]()
    for name in sorted(data):
        certificates, whole = certificates_in(data[name])
        found += "".join(certificates)
        if not whole:
            useless.append(name)
    return found, useless
