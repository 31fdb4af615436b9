"""The ConfigMaps of the system namespace: features, the addresses that follow from them, and trust bundles."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from penstock.contract.routes import TrustBundle
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.recorder import EventRecorder
from penstock.controllers.routes.publisher import Publisher
from penstock.controllers.tracker import Observer
from penstock.kube.kinds import CONFIG_MAP, Key, Obj
from penstock.resources import features
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.resources.destinations import ResolvedAddress
from penstock.resources.trust_bundles import bundle_of, is_bundle
from penstock.web import own_authority
from penstock.web.tls_server import FOLDER, trusted_by_clients


def features_of(context: ReconcilerContext, me: Observer) -> Mapping[str, str]:
    """The data of `config-features`; `me` is enqueued when it changes."""
    found = context.tracker.look(me, CONFIG_MAP, Key(SYSTEM_NAMESPACE, features.CONFIG_MAP))
    return (found or {}).get("data") or {}


def reports_types(context: ReconcilerContext, me: Observer) -> bool:
    """Whether the ingress should report the types of a target's events; `me` is enqueued when that changes."""
    return features.enabled_by("eventtype-auto-create", features_of(context, me))


def transport(context: ReconcilerContext, me: Observer) -> features.Transport:
    """Whether targets accept events over HTTP, HTTPS or both; `me` is enqueued when that changes."""
    return features.transport(features_of(context, me))


def ingress_addresses(
    context: ReconcilerContext, me: Observer, path: str, audience: str | None
) -> tuple[ResolvedAddress, ...]:
    """The addresses of a target at this path of the ingress, the preferred one first."""
    settings, wanted = context.settings, transport(context, me)
    plain = ResolvedAddress(settings.ingress_url + path, audience=audience)
    if wanted == "disabled":
        return (plain,)
    secure = ResolvedAddress(settings.tls_ingress_url + path, trusted_by_clients(settings, datetime.now(UTC)), audience)
    return _offered(wanted, secure, plain)


def service_addresses(
    context: ReconcilerContext, me: Observer, host_and_path: str, audience: str | None
) -> tuple[ResolvedAddress, ...]:
    """The addresses of what the embedded control plane serves itself, behind a Service; the preferred one first."""
    wanted, plain = transport(context, me), ResolvedAddress(f"http://{host_and_path}", audience=audience)
    if wanted == "disabled":
        return (plain,)
    authority = own_authority.authority_certificate(context.settings.data_dir / FOLDER, datetime.now(UTC)).decode()
    return _offered(wanted, ResolvedAddress(f"https://{host_and_path}", authority, audience), plain)


def _offered(
    wanted: features.Transport, secure: ResolvedAddress, plain: ResolvedAddress
) -> tuple[ResolvedAddress, ...]:
    return (secure,) if wanted == "strict" else (secure, plain)


class TrustBundles:
    """Publishes all trust bundles: ConfigMaps with certificate authorities that are trusted for every destination over
    TLS, as in Knative. Content that is not a certificate is left out, with an Event."""

    OWNER = "TrustBundle"

    def __init__(self, publisher: Publisher, recorder: EventRecorder) -> None:
        self._publisher, self._recorder = publisher, recorder
        self._certificates: dict[Key, str] = {}

    @property
    def certificates(self) -> str:
        """The certificates of all bundles, in PEM."""
        return "".join(self._certificates[key] for key in sorted(self._certificates))

    def config_map_changed(self, key: Key, obj: Obj | None) -> None:
        """A listener for ConfigMaps."""
        if key.namespace != SYSTEM_NAMESPACE:
            return
        if obj is None or not is_bundle(obj):
            if self._certificates.pop(key, None) is not None:
                self._publisher.claim((self.OWNER, key), [])
            return
        found, useless = bundle_of(obj.get("data") or {})
        if useless:
            named = ", ".join(repr(name) for name in useless)
            message = f"The data under {named} is not only certificates in PEM; the certificates in it are trusted."
            self._recorder.warning(
                {**obj, "apiVersion": "v1", "kind": CONFIG_MAP.kind}, "TrustBundleMalformed", message
            )
        self._certificates[key] = found
        self._publisher.claim((self.OWNER, key), [TrustBundle(key.name, found)])
