"""Encryption of Secrets on disk, where a key is given: AES-256 in GCM mode, bound to the object's name.

An encrypted record names its key, so that keys can be rotated: the first key of the key file encrypts, all of them
decrypt. Records written with an older key or without one are encrypted again at the next start or by
`penstock secrets reencrypt`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from penstock.apiserver.store import database

ENCRYPTED_RESOURCES = frozenset({"secrets"})
SALT_FILE = "secrets.salt"
_MARK = b"penstock-sealed:1:"
_NONCE_BYTES = 12
_KEY_BYTES = 32
_COMMAND_SECONDS = 60


class WrongKey(Exception):
    """Secrets on disk cannot be decrypted with the given keys, or the keys cannot be read; the text says which."""


class Keyring:
    """The keys: the first one encrypts, all of them decrypt. Without keys, records are written as they are."""

    def __init__(self, keys: Sequence[tuple[str, bytes]] = ()) -> None:
        self._ciphers: Mapping[str, AESGCM] = {name: AESGCM(key) for name, key in keys}
        self.current = keys[0][0] if keys else None

    def encrypt(self, resource: str, namespace: str, name: str, body: bytes) -> bytes:
        """The record of an object, as it is stored."""
        if self.current is None or resource not in ENCRYPTED_RESOURCES:
            return body
        nonce = os.urandom(_NONCE_BYTES)
        encrypted = self._ciphers[self.current].encrypt(nonce, body, _bound_to(resource, namespace, name))
        return _MARK + self.current.encode() + b":" + nonce + encrypted

    def decrypt(self, resource: str, namespace: str, name: str, record: bytes) -> bytes:
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
        nonce, encrypted = record[start : start + _NONCE_BYTES], record[start + _NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, encrypted, _bound_to(resource, namespace, name))
        except InvalidTag:
            raise WrongKey(
                f"The Secret {namespace}/{name} cannot be decrypted: the key {key} is another one, or it is damaged."
            ) from None

    def is_current(self, record: bytes) -> bool:
        """Whether the record has the current key, or none if there is none."""
        return key_of(record) == self.current


def key_of(record: bytes) -> str | None:
    """The name of the key that a record is encrypted with; None if it is not encrypted."""
    if not record.startswith(_MARK):
        return None
    return record[len(_MARK) :].partition(b":")[0].decode("ascii", "replace")


def load_keyring(key_file: Path | None, command: Sequence[str] | None, folder: Path) -> Keyring:
    """The keys of a file (lines `name:base64 of 32 bytes`), or the one of the passphrase that a command prints."""
    if key_file is not None:
        return Keyring(_read_key_file(key_file))
    if command:
        return Keyring([_derive_key(_passphrase_of(command), folder / SALT_FILE)])
    return Keyring()


def _read_key_file(path: Path) -> list[tuple[str, bytes]]:
    try:
        lines = path.read_text().split()
        if path.stat().st_mode & 0o077:
            raise WrongKey(
                f"The file of keys {path} can be read by others; allow it to its owner only: chmod 600 {path}"
            )
    except (OSError, UnicodeDecodeError) as error:
        raise WrongKey(f"The file of keys {path} cannot be read: {error}.") from None
    keys = [_parse_key(line, path) for line in lines]
    if not keys:
        raise WrongKey(f"The file of keys {path} is empty; a line of it is NAME:KEY with 32 random bytes in base64.")
    if len({name for name, _ in keys}) < len(keys):
        raise WrongKey(f"The file of keys {path} has two keys of one name.")
    return keys


def _parse_key(line: str, path: Path) -> tuple[str, bytes]:
    name, _, text = line.partition(":")
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not (name.isascii() and name.replace("-", "").isalnum()) or len(key) != _KEY_BYTES:
        raise WrongKey(f"A line of the file of keys {path} is not NAME:KEY with 32 bytes in base64.")
    return name, key


def _passphrase_of(command: Sequence[str]) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_COMMAND_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise WrongKey(f"The command of secrets_key_command failed: {type(error).__name__}.") from None
    passphrase = done.stdout.strip()
    if not passphrase:
        raise WrongKey("The command of secrets_key_command printed no passphrase.")
    return passphrase


def _derive_key(passphrase: bytes, salt_file: Path) -> tuple[str, bytes]:
    """A key that is slow to guess. It is named by its digest, so that another passphrase is another key."""
    if not salt_file.exists():
        salt_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        salt_file.write_bytes(os.urandom(16))
        salt_file.chmod(0o600)
    key = Scrypt(salt=salt_file.read_bytes(), length=_KEY_BYTES, n=2**15, r=8, p=1).derive(passphrase)
    return "p" + hashlib.sha256(b"penstock key name" + key).hexdigest()[:8], key


def _bound_to(resource: str, namespace: str, name: str) -> bytes:
    """Authenticated with the record, so that a record copied to another name cannot be decrypted there."""
    return f"{resource}/{namespace}/{name}".encode()


def reencrypt(path: Path, keyring: Keyring) -> int:
    """Encrypts every stored Secret with the current key, where it is not yet; how many. No object changes.

    Raises WrongKey, and then nothing is written. A server may run meanwhile, if it knows the keys.
    """
    if not path.exists():
        return 0
    count = 0
    with contextlib.closing(database.open_database(path)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'objects'").fetchone():
            return 0
        connection.execute("BEGIN IMMEDIATE")
        try:
            for resource in ENCRYPTED_RESOURCES:
                rows = connection.execute(database.LIST_ALL, (resource, "", "", -1)).fetchall()
                for namespace, name, record in rows:
                    # Decrypted even if it is current: a wrong key has to be found at the start.
                    body = keyring.decrypt(resource, namespace, name, record)
                    if not keyring.is_current(record):
                        encrypted = keyring.encrypt(resource, namespace, name, body)
                        connection.execute(database.REWRITE, (encrypted, resource, namespace, name))
                        count += 1
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if count:
            # Old records must not stay readable in free pages, nor in the write-ahead log.
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return count
