"""Feature flags: the ConfigMap `config-features`, with the defaults that hold where it says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from penstock.contract.routes import AuthorizationMode
from penstock.resources.admission import AdmissionContext

CONFIG_MAP = "config-features"
OIDC = "authentication-oidc"
AUTHORIZATION_MODE = "default-authorization-mode"
WEBHOOK = "config.webhook.eventing.knative.dev"

DEFAULTS = {
    "delivery-timeout": "enabled",
    "delivery-retryafter": "enabled",
    "delivery-backoff-max": "enabled",
    "cross-namespace-event-links": "disabled",
    "new-trigger-filters": "enabled",
    "new-apiserversource-filters": "enabled",
    "kreference-group": "disabled",
    "kreference-mapping": "disabled",
    "strict-subscriber": "disabled",
    "transport-encryption": "disabled",
    "authentication-oidc": "disabled",
    "default-authorization-mode": "allow-same-namespace",
    "eventtype-auto-create": "disabled",
    "requestreply-default-timeout": "PT30S",
}
"""As upstream, except that `delivery-retryafter` and `delivery-backoff-max` are enabled: `retryAfterMax` and
`backoffMax` are honoured here and need not be asked for, as the filters of an ApiServerSource are
(`new-apiserversource-filters`); and that `strict-subscriber` is disabled: a Subscription may have only a reply, as the
specification says."""


TRANSPORT_ENCRYPTION = "transport-encryption"
Transport = Literal["disabled", "permissive", "strict"]
WITHOUT_EFFECT = ("new-trigger-filters", "kreference-group", "kreference-mapping")
"""Features that are always as their default says."""


def warnings(data: Mapping[str, str]) -> list[str]:
    """What in this content of the ConfigMap has no effect."""
    warnings: list[str] = []
    for name, value in sorted(data.items()):
        if name.startswith("_"):
            continue
        if name not in DEFAULTS:
            warnings.append(f'feature "{name}" is not known to penstock and has no effect')
        elif name in WITHOUT_EFFECT:
            if not _same(value, DEFAULTS[name]):
                warnings.append(f'feature "{name}" has no effect in penstock, which behaves as with "{DEFAULTS[name]}"')
        elif name == TRANSPORT_ENCRYPTION:
            if not any(_same(value, known) for known in get_args(Transport)):
                warnings.append(f'feature "{name}" is off: "{value}" is neither "disabled", "permissive" nor "strict"')
        elif name == AUTHORIZATION_MODE:
            if not any(_same(value, known) for known in get_args(AuthorizationMode)):
                warnings.append(f'feature "{name}" is "{authorization_mode(data)}": "{value}" is not a mode')
        elif _is_switch(name) and not any(_same(value, known) for known in ("enabled", "disabled")):
            warnings.append(f'feature "{name}" is off: "{value}" is neither "enabled" nor "disabled"')
    return warnings


def _is_switch(name: str) -> bool:
    return DEFAULTS[name] in ("enabled", "disabled")


def _same(value: str, other: str) -> bool:
    return value.strip().lower() == other


def transport(data: Mapping[str, str]) -> Transport:
    """Over what events are taken with this content of the ConfigMap: HTTP, both, or HTTPS."""
    wanted = data.get(TRANSPORT_ENCRYPTION, "")
    return next((known for known in get_args(Transport) if _same(wanted, known)), "disabled")


def authorization_mode(data: Mapping[str, str]) -> AuthorizationMode:
    """Who may send to what no EventPolicy applies to, with this content of the ConfigMap."""
    wanted = data.get(AUTHORIZATION_MODE, "")
    return next((known for known in get_args(AuthorizationMode) if _same(wanted, known)), "allow-same-namespace")


def enabled(feature: str, ctx: AdmissionContext) -> bool:
    """Whether the feature is on."""
    return enabled_by(feature, ctx.configmaps.get(CONFIG_MAP, {}))


def enabled_by(feature: str, data: Mapping[str, str]) -> bool:
    """Whether the feature is on with this content of the ConfigMap."""
    return data.get(feature, DEFAULTS.get(feature, "disabled")).strip().lower() == "enabled"
