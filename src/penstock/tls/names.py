"""Which names a certificate of this machine's servers has to have."""

from __future__ import annotations

from urllib.parse import urlsplit

from penstock.hosts import EVERYWHERE, own_names
from penstock.settings import Settings

LOOPBACK = ("localhost", "127.0.0.1", "::1")
IN_CLUSTER = tuple(f"broker-ingress.knative-eventing{ending}" for ending in (".svc.cluster.local", ".svc", ""))
"""The name that the embedded control plane has for the ingress, as a cluster does."""


def server_names(settings: Settings) -> tuple[str, ...]:
    """All names and addresses under which the servers are reached, by others and from here."""
    listening = own_names() if settings.host in EVERYWHERE else (settings.host,)
    bases = (settings.address_base, settings.tls_address_base)
    given = [name for base in bases if base and (name := urlsplit(base).hostname)]
    return tuple(dict.fromkeys((*LOOPBACK, *IN_CLUSTER, *given, *listening)))
