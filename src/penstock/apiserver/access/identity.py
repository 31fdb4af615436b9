"""Who is asking: tokens, kept as a file beside the certificates, and the user each stands for."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from penstock.apiserver.documents import decode, encode

MASTERS = "system:masters"
ADMIN = "kubernetes-admin"
CONTROLLER = "system:serviceaccount:knative-eventing:eventing-controller"


@dataclass(frozen=True)
class User:
    """A subject with its groups."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def is_master(self) -> bool:
        """Whether everything is allowed."""
        return MASTERS in self.groups


def acting_as(name: str, groups: Iterable[str]) -> User:
    """The user that a master impersonates, with the groups that such a user has anyway."""
    implied = ["system:authenticated"]
    parts = name.split(":")
    if name.startswith("system:serviceaccount:") and len(parts) == 4:
        implied += ["system:serviceaccounts", f"system:serviceaccounts:{parts[2]}"]
    return User(name, tuple(dict.fromkeys([*groups, *implied])))


class Tokens:
    """Valid tokens. Only their digests are compared, so timing tells nothing about them."""

    def __init__(self, entries: Iterable[tuple[str, User]]) -> None:
        self._users = {_digest(token): user for token, user in entries}

    def user(self, header: str | None) -> User | None:
        """The user of an `Authorization` header, if it carries a valid token."""
        scheme, _, token = (header or "").partition(" ")
        return self._users.get(_digest(token.strip())) if scheme.lower() == "bearer" else None


def load_tokens(path: Path) -> tuple[Tokens, dict[str, str]]:
    """The tokens in the file, made at the first start; and the token of each user."""
    if not path.exists():
        entries = [
            {"token": secrets.token_urlsafe(32), "user": ADMIN, "groups": [MASTERS, "system:authenticated"]},
            {
                "token": secrets.token_urlsafe(32),
                "user": CONTROLLER,
                "groups": ["system:serviceaccounts", MASTERS, "system:authenticated"],
            },
        ]
        write_private(path, encode(entries))
    entries = decode(path.read_bytes())
    known = [(entry["token"], User(entry["user"], tuple(entry.get("groups") or ()))) for entry in entries]
    return Tokens(known), {user.name: token for token, user in known}


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
