"""Who is asking: the tokens of penstock's own users, kept as a file beside the certificates, and what a user is."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from penstock.apiserver.documents import decode, encode
from penstock.kube.kinds import Obj
from penstock.private_files import write_private

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
ADMIN = "kubernetes-admin"
CONTROLLER = "system:serviceaccount:knative-eventing:eventing-controller"
NODE = "system:node:penstock"
DATA_PLANE = "system:serviceaccount:knative-eventing:eventing-data-plane"
_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True)
class User:
    """A subject with its groups."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_master(self) -> bool:
        """Whether everything is allowed."""
        return MASTERS in self.groups

    def info(self) -> Obj:
        """The user as reviews tell it."""
        told: Obj = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            told["uid"] = self.uid
        if self.extra:
            told["extra"] = {key: list(values) for key, values in self.extra}
        return told


def account_user(namespace: str, name: str) -> str:
    """The user name of a ServiceAccount."""
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of the ServiceAccount behind a user name; None if it is that of somebody else."""
    namespace, colon, name = user.removeprefix(_ACCOUNT_PREFIX).partition(":")
    whole = user.startswith(_ACCOUNT_PREFIX) and namespace and colon and name and ":" not in name
    return (namespace, name) if whole else None


def account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of every ServiceAccount in a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def acting_as(
    name: str, groups: Iterable[str] = (), uid: str = "", extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
) -> User:
    """The user that is impersonated, with the groups that such a user has anyway."""
    named = list(dict.fromkeys(groups))
    account = account_of(name)
    if account and not named:
        named += account_groups(account[0])
    if name == ANONYMOUS:
        implied = [] if UNAUTHENTICATED in named else [UNAUTHENTICATED]
    else:
        implied = [] if {AUTHENTICATED, UNAUTHENTICATED} & set(named) else [AUTHENTICATED]
    return User(name, (*named, *implied), uid, extra)


COMPONENTS = {
    ADMIN: (MASTERS, AUTHENTICATED),
    CONTROLLER: (*account_groups("knative-eventing"), AUTHENTICATED),
    NODE: ("system:nodes", AUTHENTICATED),
    DATA_PLANE: (*account_groups("knative-eventing"), AUTHENTICATED),
}
"""Who has a token in the data folder, and the groups they are in, whatever the file of an earlier version says."""


class KnownTokens:
    """Valid tokens. Only their digests are compared, so timing tells nothing about them."""

    def __init__(self, entries: Iterable[tuple[str, User]]) -> None:
        self._users = {digest(token): user for token, user in entries}

    def user(self, token: str) -> User | None:
        """The user of a token."""
        return self._users.get(digest(token))


def load_tokens(path: Path) -> tuple[KnownTokens, dict[str, str]]:
    """The tokens in the file, made at the first start that needs them; and the token of each user."""
    entries: list[Obj] = decode(path.read_bytes()) if path.exists() else []
    missing = COMPONENTS.keys() - {entry["user"] for entry in entries}
    if missing:
        entries += [{"token": secrets.token_urlsafe(32), "user": user} for user in COMPONENTS if user in missing]
        write_private(path, encode(entries))
    known = [(str(entry["token"]), _listed_user(entry)) for entry in entries]
    return KnownTokens(known), {user.name: token for token, user in known}


def _listed_user(entry: Obj) -> User:
    name = str(entry["user"])
    return User(name, COMPONENTS.get(name) or tuple(entry.get("groups") or (AUTHENTICATED,)))


def digest(token: str) -> bytes:
    """What of a token may be kept and compared."""
    return hashlib.sha256(token.encode()).digest()
