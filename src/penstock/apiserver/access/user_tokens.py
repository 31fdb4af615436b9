"""Tokens of people: signed by whoever holds the data folder, who is the administrator; see `penstock kubeconfig`."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.apiserver.access.identity import User, acting_as
from penstock.apiserver.access.signing import Claims, Signer

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
