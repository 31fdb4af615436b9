"""Secrets of the type `kubernetes.io/tls` with the certificate that is shown to subscribers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.resources.secrets.content import MalformedSecret

if TYPE_CHECKING:
    from penstock.certificates import KeyPair

CERTIFICATE, KEY = "tls.crt", "tls.key"


def client_certificate(content: Mapping[str, bytes]) -> KeyPair:
    """The certificate with its key. Raises MalformedSecret."""
    from penstock.certificates import KeyPair, NotAPair, check_pair

    missing = [name for name in (CERTIFICATE, KEY) if not content.get(name)]
    if missing:
        raise MalformedSecret(f"the key {' and '.join(missing)} is missing; it has to be of the type kubernetes.io/tls")
    pair = KeyPair(content[CERTIFICATE], content[KEY])
    try:
        check_pair(pair)
    except NotAPair as problem:
        raise MalformedSecret(f"{CERTIFICATE} and {KEY} cannot be used: {problem}") from None
    return pair
