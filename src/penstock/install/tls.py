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
"""The Service whose name producers use; Prometheus, which asks Pods by address, expects it in the certificate too."""


@dataclass(frozen=True)
class Tls:
    """Where the certificate is, and who makes it. The chart has expressions of Helm in place of what follows of it."""

    mode: Any = "off"
    secret: Any = "penstock-tls"  # noqa: S105 — a name
    """The Secret with `tls.crt` and `tls.key`. With `cert-manager` it is made."""
    authority: Any = "ca.crt"
    """Entry of the Secret with what clients have to trust. Empty: nothing but what every system trusts."""
    issuer: Any = field(default_factory=lambda: {"kind": "ClusterIssuer", "name": "penstock"})
    """Whom cert-manager asks for the certificate."""
    names: Any = field(default_factory=list)
    """Names in it besides those of the Services, such as that of the console for browsers."""

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
        """Whether cert-manager is asked."""
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
        """What Prometheus' operator has to know to believe the certificate."""
        return {"secret": {"name": self.secret, "key": self.authority}} if self.authority else {}

    @property
    def all_names(self) -> Any:
        """Every name that the certificate has to have."""
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
    """What cert-manager is asked for."""
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
