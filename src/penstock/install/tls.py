"""Certificates of an installation: from a given Secret, or from cert-manager, which makes and renews it.

Both end in the same: a Secret of type `kubernetes.io/tls` that every role has as files. Kubernetes changes the files
when the Secret changes, and the roles read them again, so nothing is restarted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from penstock.contract.names import CLUSTER_DOMAIN
from penstock.install.objects import Manifest, metadata
from penstock.kube.kinds import Obj
from penstock.resources.admission import SYSTEM_NAMESPACE

Mode = Literal["off", "secret", "cert-manager"]
MODES = get_args(Mode)
CERTIFICATE_FOLDER = "/etc/penstock/certificate"
INGRESS_SERVICE = "broker-ingress"
"""The Service whose name producers use. Prometheus, which connects to Pods by address, verifies that name as well."""


@dataclass(frozen=True)
class Tls:
    """Where the certificate is, and who issues it. In the chart, Helm expressions replace what follows from it."""

    mode: Any = "off"
    secret: Any = "penstock-tls"  # noqa: S105 — a name
    """The Secret with `tls.crt` and `tls.key`. cert-manager creates it."""
    authority: Any = "ca.crt"
    """Key of the Secret with the certificate authority that clients must trust. Empty: one that every system trusts."""
    issuer: Any = field(default_factory=lambda: {"kind": "ClusterIssuer", "name": "penstock"})
    """The issuer of cert-manager for the certificate."""
    names: Any = field(default_factory=list)
    """DNS names besides those of the Services, such as that of the console for browsers."""

    @property
    def is_off(self) -> Any:
        """Whether roles speak HTTP."""
        return self.mode == "off"

    @property
    def is_on(self) -> bool:
        """Whether they speak HTTPS."""
        return not self.is_off

    @property
    def is_made(self) -> bool:
        """Whether cert-manager issues the certificate."""
        return bool(self.mode == "cert-manager")

    @property
    def scheme(self) -> Any:
        """Of the console, metrics and probes."""
        return "http" if self.is_off else "https"

    @property
    def probe_scheme(self) -> Any:
        """The same as Kubernetes spells it."""
        return self.scheme.upper()

    @property
    def trust(self) -> Any:
        """The configuration with which Prometheus' operator trusts the certificate."""
        return {"secret": {"name": self.secret, "key": self.authority}} if self.authority else {}

    @property
    def all_names(self) -> Any:
        """Every DNS name that the certificate must have."""
        return [*SERVICE_NAMES, *self.names]


_ROLES = ("ingress", "control", "webhook", "pipeline", "console", "history")
SERVICE_NAMES = [
    f"{service}.{SYSTEM_NAMESPACE}.svc{ending}"
    for service in (INGRESS_SERVICE, *(f"penstock-{role}" for role in _ROLES))
    for ending in ("", f".{CLUSTER_DOMAIN}")
]

SETTINGS = {
    "tls": True,
    "tls_cert_file": f"{CERTIFICATE_FOLDER}/tls.crt",
    "tls_key_file": f"{CERTIFICATE_FOLDER}/tls.key",
    "tls_address_base": f"https://{INGRESS_SERVICE}.{SYSTEM_NAMESPACE}.svc.{CLUSTER_DOMAIN}",
}
"""The settings of roles that serve TLS."""


def certificate(tls: Tls) -> Manifest:
    """The Certificate for cert-manager."""
    spec: Obj = {
        "secretName": tls.secret,
        "dnsNames": tls.all_names,
        "issuerRef": tls.issuer,
        "usages": ["digital signature", "server auth"],
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
    }
    details = metadata("penstock")
    made = {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": details, "spec": spec}
    return Manifest(made, ("tls.is_made",))
