"""Who trusts the webhook: the objects by which the API server finds it, and the `caBundle` in each of them. Pure."""

from __future__ import annotations

import base64
import copy
from typing import NamedTuple

from penstock.kube.kinds import Kind, Obj
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.resources.registry import CONVERSIONS, crds

SERVICE = "penstock-webhook"
SECRET = f"{SERVICE}-certs"
MUTATING = "webhook.eventing.penstock.dev"
VALIDATING = "validation.webhook.eventing.penstock.dev"


_REGISTRATION = "admissionregistration.k8s.io/v1"
_MUTATING = Kind(_REGISTRATION, "MutatingWebhookConfiguration")
_VALIDATING = Kind(_REGISTRATION, "ValidatingWebhookConfiguration")
_DEFINITION = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")


class Trusting(NamedTuple):
    """An object that holds a `caBundle`."""

    kind: Kind
    name: str


def hosts() -> tuple[str, ...]:
    """The names that the API server calls the webhook by, the one it checks first."""
    short = f"{SERVICE}.{SYSTEM_NAMESPACE}"
    return (f"{short}.svc", f"{short}.svc.cluster.local", short, SERVICE)


def converted_definitions() -> list[str]:
    """The names of the definitions whose versions the webhook converts."""
    named = {(one["spec"]["group"], one["spec"]["names"]["kind"]): one["metadata"]["name"] for one in crds()}
    return [named[kind] for kind in CONVERSIONS]


def trusting() -> list[Trusting]:
    """Every object that has to hold the bundle."""
    definitions = [Trusting(_DEFINITION, name) for name in converted_definitions()]
    return [Trusting(_MUTATING, MUTATING), Trusting(_VALIDATING, VALIDATING), *definitions]


def with_bundle(obj: Obj, bundle: bytes) -> Obj | None:
    """The object with the bundle wherever it calls this webhook; None if it has it already, or calls others only."""
    wanted = base64.b64encode(bundle).decode()
    changed = copy.deepcopy(obj)
    for client in _clients(changed):
        if (client.get("service") or {}).get("name") == SERVICE:
            client["caBundle"] = wanted
    return None if changed == obj else changed


def _clients(obj: Obj) -> list[Obj]:
    """The `clientConfig`s of a webhook configuration or of a definition."""
    conversion = ((obj.get("spec") or {}).get("conversion") or {}).get("webhook") or {}
    holders = [*(obj.get("webhooks") or []), conversion]
    return [one["clientConfig"] for one in holders if isinstance(one.get("clientConfig"), dict)]
