"""The certificate of metrics and probes, where they are to speak HTTPS."""

from __future__ import annotations

from penstock.engine.problem import Problem
from penstock.settings import Settings
from penstock.tls.server import NoCertificate, ServerTls
from penstock.tls.threads import FreshCertificate


def certificate_for(settings: Settings) -> FreshCertificate | None:
    """None where they speak HTTP. Raises Problem where the given files are of no use."""
    if not settings.tls:
        return None
    try:
        return FreshCertificate(ServerTls(settings))
    except NoCertificate as error:
        why = f"There is no certificate for HTTPS: {error}."
        raise Problem(why, "Look at tls_cert_file and tls_key_file.") from None
