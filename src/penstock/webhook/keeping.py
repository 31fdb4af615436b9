"""The webhook's certificates as a Secret keeps them, and when they are made anew. Pure: data in, data out, time given.

Whoever trusts the authority is told of a new one before a server shows a certificate of it, and believes the one before
for as long as it lasts: so every replica, old or new, is believed at every moment.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.certificates import KeyPair, is_signed_by, issue, lasts_for, make_authority, names_all

AUTHORITY_LASTS = timedelta(days=3650)
AUTHORITY_RENEWED_BEFORE = timedelta(days=365)
SERVER_LASTS = timedelta(days=30)
SERVER_RENEWED_BEFORE = timedelta(days=10)

_CA, _CA_KEY, _FORMER_CA, _SERVER, _SERVER_KEY = (
    "ca-cert.pem",
    "ca-key.pem",
    "former-ca-cert.pem",
    "server-cert.pem",
    "server-key.pem",
)


@dataclass(frozen=True)
class Certificates:
    """An authority, the one before it, and the certificate of the server."""

    authority: KeyPair
    server: KeyPair
    former: bytes = b""
    """Empty where there is none that anybody still has to trust."""

    @property
    def bundle(self) -> bytes:
        """What clients have to trust."""
        return self.authority.certificate + self.former


def certificates_in(data: Mapping[str, str]) -> Certificates | None:
    """What the Secret holds; None where something is missing or is not what it should be."""
    try:
        read = {name: base64.b64decode(data.get(name) or "", validate=True) for name in (*_NEEDED, _FORMER_CA)}
    except (binascii.Error, ValueError):
        return None
    if not all(read[name] for name in _NEEDED):
        return None
    return Certificates(KeyPair(read[_CA], read[_CA_KEY]), KeyPair(read[_SERVER], read[_SERVER_KEY]), read[_FORMER_CA])


_NEEDED = (_CA, _CA_KEY, _SERVER, _SERVER_KEY)


def secret_data(held: Certificates) -> dict[str, str]:
    """The same as the data of a Secret."""
    pairs = {
        _CA: held.authority.certificate,
        _CA_KEY: held.authority.key,
        _SERVER: held.server.certificate,
        _SERVER_KEY: held.server.key,
        _FORMER_CA: held.former,
    }
    return {name: base64.b64encode(value).decode() for name, value in pairs.items() if value}


def renewed(held: Certificates | None, hosts: tuple[str, ...], now: datetime) -> Certificates:
    """What should be held from now on: the very same object unless something is due, missing or does not fit."""
    if held is None or not lasts_for(held.authority.certificate, timedelta(0), now):
        authority = make_authority("penstock-webhook", AUTHORITY_LASTS, now)
        return Certificates(authority, issue(authority, hosts[0], hosts, SERVER_LASTS, now))
    if not lasts_for(held.authority.certificate, AUTHORITY_RENEWED_BEFORE, now):
        authority = make_authority("penstock-webhook", AUTHORITY_LASTS, now)
        server = issue(authority, hosts[0], hosts, SERVER_LASTS, now)
        return Certificates(authority, server, held.authority.certificate)
    if not _serves(held, hosts, now):
        server = issue(held.authority, hosts[0], hosts, SERVER_LASTS, now)
        return Certificates(held.authority, server, _still_of_use(held.former, now))
    return held


def _serves(held: Certificates, hosts: tuple[str, ...], now: datetime) -> bool:
    certificate = held.server.certificate
    return (
        lasts_for(certificate, SERVER_RENEWED_BEFORE, now)
        and names_all(certificate, hosts)
        and is_signed_by(certificate, held.authority.certificate)
    )


def _still_of_use(former: bytes, now: datetime) -> bytes:
    return former if former and lasts_for(former, timedelta(0), now) else b""
