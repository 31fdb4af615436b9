"""Who is behind a token that comes to a sink of the control plane. Nothing of it is loaded before the first one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.kafka.threads import Owner
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.oidc.verifier import TokenRefused, Verifier

PATIENCE_SECONDS = 5.0
"""For the keys of issuers."""
LOOK_SECONDS = 0.05


class SinkTokens:
    """Verifies tokens, with keys that are fetched meanwhile."""

    def __init__(self, settings: Settings, owner: Owner) -> None:
        self._settings, self._owner = settings, owner
        self._verifier: Verifier | None = None

    async def subject(self, token: str, audience: str) -> str | TokenRefused:
        """Whose token it is, if it holds now and is for this audience; waits for keys that are being fetched."""
        from penstock.oidc.verifier import TokenRefused

        verifier, loop = self._begun(), asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        while True:
            found = verifier.subject(token, audience)
            if not isinstance(found, TokenRefused) or not found.is_passing or loop.time() >= deadline:
                return found
            await asyncio.sleep(LOOK_SECONDS)

    def _begun(self) -> Verifier:
        if self._verifier is None:
            from penstock.oidc.issuers import issuers_of
            from penstock.oidc.verifier import Verifier

            issuers = issuers_of(self._settings)
            issuers.want()
            self._owner.start(issuers.run(), "keys of issuers")
            self._verifier = Verifier(issuers)
        return self._verifier
