"""The certificate authority of a data folder and the certificates it signs, stored in the folder `pki`.

The processes of a stack share the folder, so it is locked during every access: otherwise two processes could create two
authorities, and one would show a certificate that clients do not trust.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from penstock.runtime.files import write_private
from penstock.web import certificates
from penstock.web.certificates import KeyPair

AUTHORITY_LASTS = timedelta(days=3650)
AUTHORITY = "ca"


def authority_certificate(folder: Path, now: datetime) -> bytes:
    """The certificate that clients of this data folder's servers have to trust; created if it is missing."""
    with _locked(folder):
        return _authority(folder, now).certificate


@dataclass(frozen=True)
class Span:
    """How long a certificate is valid, and how long before its expiry it is renewed."""

    lasts: timedelta
    renewed_before: timedelta


def server_certificate(folder: Path, name: str, hosts: Iterable[str], span: Span, now: datetime) -> KeyPair:
    """A server's certificate `<name>.crt` with its key: the stored one, or a new one if that does not name the hosts,
    is of another authority or about to expire. Raises ValueError if the authority's key is not penstock's."""
    with _locked(folder):
        held = _read(folder, name)
        pair = _current(folder, name, tuple(hosts), span, now, held=held)
        if pair != held:
            _write(folder, name, pair)
        return pair


def in_memory_certificate(
    folder: Path, name: str, hosts: Iterable[str], span: Span, now: datetime, *, held: KeyPair | None
) -> KeyPair:
    """The same for a server that keeps its certificate in memory only: the one it holds, or a new one."""
    with _locked(folder):
        return _current(folder, name, tuple(hosts), span, now, held=held)


def _current(
    folder: Path, name: str, hosts: tuple[str, ...], span: Span, now: datetime, *, held: KeyPair | None
) -> KeyPair:
    authority = _authority(folder, now)
    if held is not None and _serves(held, authority, hosts, span, now):
        return held
    try:
        return certificates.issue_certificate(authority, f"penstock-{name}", hosts, span.lasts, now)
    except ValueError:
        why = f"{folder / 'ca.key'} is not the key that penstock made; remove the folder to make a new one"
        raise ValueError(why) from None


def _serves(held: KeyPair, authority: KeyPair, hosts: Iterable[str], span: Span, now: datetime) -> bool:
    return (
        certificates.lasts_for(held.certificate, span.renewed_before, now)
        and certificates.names_all(held.certificate, hosts)
        and certificates.is_signed_by(held.certificate, authority.certificate)
    )


def _authority(folder: Path, now: datetime) -> KeyPair:
    held = _read(folder, AUTHORITY)
    if held is not None:
        return held
    made = certificates.make_authority("penstock", AUTHORITY_LASTS, now)
    _write(folder, AUTHORITY, made)
    return made


def _read(folder: Path, name: str) -> KeyPair | None:
    try:
        return KeyPair((folder / f"{name}.crt").read_bytes(), (folder / f"{name}.key").read_bytes())
    except FileNotFoundError:
        return None


def _write(folder: Path, name: str, pair: KeyPair) -> None:
    write_private(folder / f"{name}.key", pair.key)
    write_private(folder / f"{name}.crt", pair.certificate)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
