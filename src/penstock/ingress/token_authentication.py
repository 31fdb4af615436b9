"""Senders with an OpenID Connect token, for targets with an audience. Comes last: it handles every Bearer token."""

from __future__ import annotations

from penstock.ingress import responses
from penstock.ingress.request import Request, Sender
from penstock.ingress.responses import Response
from penstock.ingress.targets import ResolvedTarget
from penstock.oidc.verifier import TokenRefused, Verifier


class TokenAuthenticator:
    """Authenticates senders by their tokens."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier

    def authenticate(self, request: Request, resolved: ResolvedTarget) -> Sender | Response | None:
        """See `Authenticator`."""
        access = resolved.target.access
        if access is None or not access.audience:
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        found = self._verifier.subject(token.strip(), access.audience)
        if not isinstance(found, TokenRefused):
            return Sender(found)
        return (
            responses.authentication_unavailable(found.reason)
            if found.is_passing
            else responses.unauthorized(found.reason)
        )
