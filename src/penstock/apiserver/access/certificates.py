"""The certificate authority of a data folder and the server certificate it signs; both survive restarts.

The server certificate is made anew when it does not name the host any more or is about to expire; clients trust the
authority, so nothing changes for them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from penstock import certificates
from penstock.apiserver.access.identity import write_private
from penstock.certificates import KeyPair

AUTHORITY_LASTS = timedelta(days=3650)
SERVER_LASTS = timedelta(days=365)
RENEWED_BEFORE = timedelta(days=30)
_HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1")


def ensure(folder: Path, host: str) -> None:
    """Makes what is missing: `ca.crt`, `ca.key`, `server.crt`, `server.key`."""
    authority, authority_key = folder / "ca.crt", folder / "ca.key"
    now = datetime.now(UTC)
    if not (authority.exists() and authority_key.exists()):
        _write(folder, "ca", certificates.make_authority("penstock", AUTHORITY_LASTS, now))
        (folder / "server.crt").unlink(missing_ok=True)
    if not _still_good(folder / "server.crt", host, now) or not (folder / "server.key").exists():
        _make_server(folder, host, now)


def _make_server(folder: Path, host: str, now: datetime) -> None:
    authority = KeyPair((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes())
    try:
        made = certificates.issue(authority, "penstock-api", _hosts(host), SERVER_LASTS, now)
    except ValueError:
        why = f"{folder / 'ca.key'} is not the key that penstock made; remove the folder to make a new one"
        raise ValueError(why) from None
    _write(folder, "server", made)


def _still_good(path: Path, host: str, now: datetime) -> bool:
    if not path.exists():
        return False
    certificate = path.read_bytes()
    lasts = certificates.lasts_for(certificate, RENEWED_BEFORE, now)
    return lasts and certificates.names_all(certificate, _hosts(host))


def _hosts(host: str) -> tuple[str, ...]:
    return (*_HOSTS, host)


def _write(folder: Path, name: str, pair: KeyPair) -> None:
    write_private(folder / f"{name}.key", pair.key)
    write_private(folder / f"{name}.crt", pair.certificate)
