"""Tokens that were taken back before their time: all that a user got until a moment.

The list is a file beside the certificates, written by whoever holds the data folder and read anew when it changes, so
that a token ends without a restart of the API.
"""

from __future__ import annotations

from pathlib import Path

from penstock.apiserver.access.signing import Claims
from penstock.apiserver.documents import decode, encode
from penstock.private_files import write_private

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
