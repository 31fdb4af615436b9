"""Feature flags: the ConfigMap `config-features`, with the defaults that hold where it says nothing."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.resources.admission import AdmissionContext

CONFIG_MAP = "config-features"

DEFAULTS = {
    "delivery-timeout": "enabled",
    "delivery-retryafter": "enabled",
    "cross-namespace-event-links": "disabled",
    "new-trigger-filters": "enabled",
    "new-apiserversource-filters": "enabled",
    "kreference-group": "disabled",
    "kreference-mapping": "disabled",
    "strict-subscriber": "disabled",
    "transport-encryption": "disabled",
    "authentication-oidc": "disabled",
    "eventtype-auto-create": "disabled",
}
"""As upstream, except that `delivery-retryafter` is enabled: `retryAfterMax` is honoured here and need not be asked
for, as the filters of an ApiServerSource are (`new-apiserversource-filters`); and that `strict-subscriber` is disabled:
a Subscription may have only a reply, as the specification says."""


def enabled(feature: str, ctx: AdmissionContext) -> bool:
    """Whether the feature is on."""
    return enabled_by(feature, ctx.configmaps.get(CONFIG_MAP, {}))


def enabled_by(feature: str, data: Mapping[str, str]) -> bool:
    """Whether the feature is on with this content of the ConfigMap."""
    return data.get(feature, DEFAULTS.get(feature, "disabled")).strip().lower() == "enabled"
