"""The certificate of the metrics and health ports where they serve HTTPS."""

from __future__ import annotations

from penstock.runtime.errors import UserError
from penstock.settings import Settings
from penstock.web.tls_server import FreshCertificate, NoCertificate, ServerTls


def certificate_for(settings: Settings) -> FreshCertificate | None:
    """None where they speak HTTP. Raises UserError where the given files are of no use."""
    if not settings.tls:
        return None
    try:
        return FreshCertificate(ServerTls(settings))
    except NoCertificate as error:
        why = f"The certificate for HTTPS cannot be used: {error}."
        raise UserError(why, "Check tls_cert_file and tls_key_file.") from None
