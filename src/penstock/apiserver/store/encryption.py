"""Secrets are written to disk encrypted where a key is given: AES-256 in GCM mode, bound to the object's name.

A sealed record names its key, so that keys can be changed: the first of the key file seals, all of them open. What was
written before, with an older key or with none, is sealed anew at the next start or by `penstock secrets reencrypt`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

SEALED_RESOURCES = frozenset({"secrets"})
SALT_FILE = "secrets.salt"
_MARK = b"penstock-sealed:1:"
_NONCE_BYTES = 12
_KEY_BYTES = 32
_COMMAND_SECONDS = 60


class WrongKey(Exception):
    """Secrets on disk cannot be read with the keys that were given, or no key can be had; the text says which."""


class Seals:
    """The keys: the first one seals, every one opens. Without any, records are written as they are."""

    def __init__(self, keys: Sequence[tuple[str, bytes]] = ()) -> None:
        self._ciphers: Mapping[str, AESGCM] = {name: AESGCM(key) for name, key in keys}
        self.current = keys[0][0] if keys else None

    def seal(self, resource: str, namespace: str, name: str, body: bytes) -> bytes:
        """The record of an object."""
        if self.current is None or resource not in SEALED_RESOURCES:
            return body
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self.current].encrypt(nonce, body, _bound_to(resource, namespace, name))
        return _MARK + self.current.encode() + b":" + nonce + sealed

    def open(self, resource: str, namespace: str, name: str, record: bytes) -> bytes:
        """The object of a record. Raises WrongKey."""
        key = key_of(record)
        if key is None:
            return record
        cipher = self._ciphers.get(key)
        if cipher is None:
            given = ", ".join(self._ciphers) or "none"
            raise WrongKey(
                f"The Secret {namespace}/{name} is encrypted with the key {key}, which is not among the keys given "
                f"({given}); see secrets_key_file and secrets_key_command."
            )
        start = len(_MARK) + len(key) + 1
        nonce, sealed = record[start : start + _NONCE_BYTES], record[start + _NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, sealed, _bound_to(resource, namespace, name))
        except InvalidTag:
            raise WrongKey(
                f"The Secret {namespace}/{name} cannot be decrypted: the key {key} is another one, or it is damaged."
            ) from None

    def is_current(self, record: bytes) -> bool:
        """Whether the record is written as it would be now."""
        return key_of(record) == self.current


def key_of(record: bytes) -> str | None:
    """The name of the key that a record is sealed with; None where it is not."""
    if not record.startswith(_MARK):
        return None
    return record[len(_MARK) :].partition(b":")[0].decode("ascii", "replace")


def load_seals(key_file: Path | None, command: Sequence[str] | None, folder: Path) -> Seals:
    """The keys of a file (lines `name:base64 of 32 bytes`), or the one of the passphrase that a command prints."""
    if key_file is not None:
        return Seals(_from_file(key_file))
    if command:
        return Seals([_from_passphrase(_printed(command), folder / SALT_FILE)])
    return Seals()


def _from_file(path: Path) -> list[tuple[str, bytes]]:
    try:
        lines = path.read_text().split()
        if path.stat().st_mode & 0o077:
            raise WrongKey(
                f"The file of keys {path} can be read by others; allow it to its owner only: chmod 600 {path}"
            )
    except (OSError, UnicodeDecodeError) as error:
        raise WrongKey(f"The file of keys {path} cannot be read: {error}.") from None
    keys = [_key(line, path) for line in lines]
    if not keys:
        raise WrongKey(f"The file of keys {path} is empty; a line of it is NAME:KEY with 32 random bytes in base64.")
    if len({name for name, _ in keys}) < len(keys):
        raise WrongKey(f"The file of keys {path} has two keys of one name.")
    return keys


def _key(line: str, path: Path) -> tuple[str, bytes]:
    name, _, text = line.partition(":")
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not (name.isascii() and name.replace("-", "").isalnum()) or len(key) != _KEY_BYTES:
        raise WrongKey(f"A line of the file of keys {path} is not NAME:KEY with 32 bytes in base64.")
    return name, key


def _printed(command: Sequence[str]) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_COMMAND_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise WrongKey(f"The command of secrets_key_command failed: {type(error).__name__}.") from None
    passphrase = done.stdout.strip()
    if not passphrase:
        raise WrongKey("The command of secrets_key_command printed no passphrase.")
    return passphrase


def _from_passphrase(passphrase: bytes, salt_file: Path) -> tuple[str, bytes]:
    """A key that takes long to try, named after itself, so that another passphrase is told apart."""
    if not salt_file.exists():
        salt_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        salt_file.write_bytes(os.urandom(16))
        salt_file.chmod(0o600)
    key = Scrypt(salt=salt_file.read_bytes(), length=_KEY_BYTES, n=2**15, r=8, p=1).derive(passphrase)
    return "p" + hashlib.sha256(b"penstock key name" + key).hexdigest()[:8], key


def _bound_to(resource: str, namespace: str, name: str) -> bytes:
    """A record that is copied to another name does not open there."""
    return f"{resource}/{namespace}/{name}".encode()
