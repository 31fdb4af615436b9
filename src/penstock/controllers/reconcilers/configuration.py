"""What the ConfigMaps in `knative-eventing` say to the controllers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.tracker import Observer
from penstock.kube.kinds import CONFIG_MAP, Key
from penstock.resources import features
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.resources.destinations import ResolvedAddress
from penstock.web import own_authority
from penstock.web.tls_server import FOLDER, trusted_by_clients


def features_of(context: ReconcilerContext, me: Observer) -> Mapping[str, str]:
    """What `config-features` says; who asks hears when that changes."""
    found = context.tracker.look(me, CONFIG_MAP, Key(SYSTEM_NAMESPACE, features.CONFIG_MAP))
    return (found or {}).get("data") or {}


def tells_types(context: ReconcilerContext, me: Observer) -> bool:
    """Whether the target should report the types of its events; who asks hears when that changes."""
    return features.enabled_by("eventtype-auto-create", features_of(context, me))


def transport(context: ReconcilerContext, me: Observer) -> features.Transport:
    """Over what the target takes events; who asks hears when that changes."""
    return features.transport(features_of(context, me))


def ingress_addresses(
    context: ReconcilerContext, me: Observer, path: str, audience: str | None
) -> tuple[ResolvedAddress, ...]:
    """The addresses of what the ingress takes events for at this path, the one to prefer first."""
    settings, wanted = context.settings, transport(context, me)
    plain = ResolvedAddress(settings.ingress_url + path, audience=audience)
    if wanted == "disabled":
        return (plain,)
    secure = ResolvedAddress(settings.tls_ingress_url + path, trusted_by_clients(settings, datetime.now(UTC)), audience)
    return _offered(wanted, secure, plain)


def service_addresses(
    context: ReconcilerContext, me: Observer, place: str, audience: str | None
) -> tuple[ResolvedAddress, ...]:
    """The addresses of what the embedded control plane serves itself, behind a Service: `place` is its host and path.
    The one to prefer first."""
    wanted, plain = transport(context, me), ResolvedAddress(f"http://{place}", audience=audience)
    if wanted == "disabled":
        return (plain,)
    authority = own_authority.authority_certificate(context.settings.data_dir / FOLDER, datetime.now(UTC)).decode()
    return _offered(wanted, ResolvedAddress(f"https://{place}", authority, audience), plain)


def _offered(
    wanted: features.Transport, secure: ResolvedAddress, plain: ResolvedAddress
) -> tuple[ResolvedAddress, ...]:
    return (secure,) if wanted == "strict" else (secure, plain)
