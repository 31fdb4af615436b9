"""Settings that follow from what is chosen of an installation. Those that were given count before them."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from penstock.contract.names import CLUSTER_DOMAIN
from penstock.engine.roles.table import role_of
from penstock.install import tls
from penstock.install.values import Values
from penstock.resources.admission import SYSTEM_NAMESPACE

EXECUTORS = {"spark_master": "k8s://https://kubernetes.default.svc", "spark_executors": 2}
"""With these a driver asks Kubernetes for its executors."""
COUNTING = ("pipeline", "ingress")
"""Roles whose numbers the console shows."""
CONSOLE_NAMES = [f"penstock-console.{SYSTEM_NAMESPACE}{ending}" for ending in ("", ".svc", f".svc.{CLUSTER_DOMAIN}")]


@dataclass(frozen=True)
class Implied:
    """Settings, and the choices that they follow from."""

    choices: tuple[str, ...]
    """Attributes of `Values`; they follow where all hold."""
    settings: dict[str, Any]


def implied(values: Values) -> list[Implied]:
    """All of them; where two name the same setting, the first counts."""
    return [
        Implied(("spark_executors",), EXECUTORS),
        Implied(("history.enabled",), {"history": True}),
        Implied(("tls.is_on",), tls.SETTINGS),
        Implied(("tls.is_on", "tls.authority"), {"tls_ca_file": f"{tls.CERTIFICATE_FOLDER}/{values.tls.authority}"}),
        Implied(("console.enabled", "tls.is_on"), {"console_metrics": metrics_pages("https")}),
        Implied(("console.enabled",), {"console_metrics": metrics_pages("http"), "console_hosts": CONSOLE_NAMES}),
        Implied((), {"history": False}),  # no role would write it
    ]


def metrics_pages(scheme: str) -> list[str]:
    """Where the console finds the numbers: Services whose names lead to every single Pod."""
    return [
        f"{scheme}://penstock-{role}.{SYSTEM_NAMESPACE}.svc:{role_of(role).health_port}/metrics" for role in COUNTING
    ]


def completed(values: Values) -> dict[str, Any]:
    """The settings of an installation, with what follows from its choices."""
    settings: dict[str, Any] = dict(values.settings)
    for one in implied(values):
        if all(attrgetter(choice)(values) for choice in one.choices):
            settings = {**one.settings, **settings}
    return settings
