"""Users and their tokens: the tokens of penstock's own components, signed tokens of people, and revocations.

Component tokens are random and are stored in a file beside the certificates. Tokens of people are signed with the keys
of the data folder (`penstock kubeconfig`): who can read that folder is the administrator. Revocations are a file too,
which is read again when it changes, so that a revoked token is refused without a restart of the API.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from penstock.apiserver.access.signing_keys import Claims, Signer
from penstock.apiserver.documents import decode, encode
from penstock.kube.kinds import Obj
from penstock.runtime.files import write_private

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
ADMIN = "kubernetes-admin"
CONTROLLER = "system:serviceaccount:knative-eventing:eventing-controller"
NODE = "system:node:penstock"
DATA_PLANE = "system:serviceaccount:knative-eventing:eventing-data-plane"
_ACCOUNT_PREFIX = "system:serviceaccount:"
USER_ISSUER = "penstock:users"
REVOCATIONS_FILE = "revoked.json"


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
        """The user as reviews and the audit log show it."""
        info: Obj = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            info["uid"] = self.uid
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra}
        return info


def account_user(namespace: str, name: str) -> str:
    """The user name of a ServiceAccount."""
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of the ServiceAccount behind a user name; None if the user is not a ServiceAccount."""
    namespace, colon, name = user.removeprefix(_ACCOUNT_PREFIX).partition(":")
    whole = user.startswith(_ACCOUNT_PREFIX) and namespace and colon and name and ":" not in name
    return (namespace, name) if whole else None


def account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of every ServiceAccount in a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def acting_as(
    name: str, groups: Iterable[str] = (), uid: str = "", extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
) -> User:
    """The user that is impersonated, with the groups that such a user always has."""
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
"""Users with a token in the data folder, and their groups. Groups in a file of an earlier version are ignored."""


class KnownTokens:
    """Valid component tokens. Only digests are compared, so that response times reveal nothing about a token."""

    def __init__(self, entries: Iterable[tuple[str, User]]) -> None:
        self._users = {_digest(token): user for token, user in entries}

    def user(self, token: str) -> User | None:
        """The user of a token."""
        return self._users.get(_digest(token))


def load_component_tokens(path: Path) -> tuple[KnownTokens, dict[str, str]]:
    """The tokens in the file, and the token of each user. Missing tokens are created and written."""
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


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def issue_user_token(name: str, groups: Iterable[str], *, seconds: int, signer: Signer, now: float) -> str:
    """A token for a user of that name in these groups."""
    return signer.sign(
        {
            "iss": USER_ISSUER,
            "sub": name,
            "groups": list(groups),
            # Not rounded, so that a token issued right after a revocation is not taken for one issued before it.
            "iat": now,
            "nbf": int(now),
            "exp": int(now) + seconds,
        }
    )


def user_of_user_token(claims: Claims) -> User:
    """The user of a token."""
    return acting_as(str(claims["sub"]), [str(group) for group in claims.get("groups") or ()])


class Revocations:
    """The revocations in the file: for each user, the time until which all issued tokens are revoked."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / REVOCATIONS_FILE
        self._read: tuple[int, int] | None = None
        self._moments: dict[str, float] = {}

    def is_revoked(self, claims: Claims) -> bool:
        """Whether the token with these claims is revoked."""
        self._reload_if_changed()
        moment = self._moments.get(str(claims["sub"]))
        return moment is not None and float(claims.get("iat", 0)) <= moment

    def _reload_if_changed(self) -> None:
        try:
            state = self._path.stat()
        except FileNotFoundError:
            self._read, self._moments = None, {}
            return
        if (state.st_mtime_ns, state.st_ino) != self._read:
            self._moments = _load_revocations(self._path)
            self._read = (state.st_mtime_ns, state.st_ino)


def _load_revocations(path: Path) -> dict[str, float]:
    return {str(user): float(moment) for user, moment in decode(path.read_bytes()).items()} if path.exists() else {}


def revoke_user_tokens(folder: Path, user: str, now: float) -> None:
    """Revokes every token that was issued to the user until now."""
    path = folder / REVOCATIONS_FILE
    write_private(path, encode({**_load_revocations(path), user: now}))
