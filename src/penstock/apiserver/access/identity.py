"""Who is asking: users, the tokens of penstock's own components, tokens of people, and which tokens are revoked."""

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

# Who is asking: the tokens of penstock's own users, kept as a file beside the certificates, and what a user is.

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


# Tokens of people: signed by whoever holds the data folder, who is the administrator; see `penstock kubeconfig`.

ISSUER = "penstock:users"


def issue(name: str, groups: Iterable[str], *, seconds: int, signer: Signer, now: float) -> str:
    """A token for a user of that name in these groups."""
    return signer.sign(
        {
            "iss": ISSUER,
            "sub": name,
            "groups": list(groups),
            # To the fraction of a second, so that one made right after a revocation is not taken for one made before.
            "iat": now,
            "nbf": int(now),
            "exp": int(now) + seconds,
        }
    )


def user_of(claims: Claims) -> User:
    """The user of a token."""
    return acting_as(str(claims["sub"]), [str(group) for group in claims.get("groups") or ()])


# Tokens that were taken back before their time: all that a user got until a moment. The list is a file beside the
# certificates, written by whoever holds the data folder and read anew when it changes, so that a token ends without a
# restart of the API.

FILE = "revoked.json"


class Revocations:
    """What the file says now."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._read: tuple[int, int] | None = None
        self._moments: dict[str, float] = {}

    def covers(self, claims: Claims) -> bool:
        """Whether a token was taken back."""
        self._follow()
        moment = self._moments.get(str(claims["sub"]))
        return moment is not None and float(claims.get("iat", 0)) <= moment

    def _follow(self) -> None:
        try:
            state = self._path.stat()
        except FileNotFoundError:
            self._read, self._moments = None, {}
            return
        if (state.st_mtime_ns, state.st_ino) != self._read:
            self._moments = load(self._path)
            self._read = (state.st_mtime_ns, state.st_ino)


def load(path: Path) -> dict[str, float]:
    """The moment of each user."""
    return {str(user): float(moment) for user, moment in decode(path.read_bytes()).items()} if path.exists() else {}


def revoke(folder: Path, user: str, now: float) -> None:
    """Ends every token that the user has got until now."""
    path = folder / FILE
    write_private(path, encode({**load(path), user: now}))
