"""What makes the API an issuer of OpenID Connect: where its public keys are, and the keys.

Both are public, as they are meant to be: whoever verifies a token need not have one.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from penstock.apiserver.access.account_tokens import ISSUER
from penstock.apiserver.access.signing import ALGORITHM, Signer

DISCOVERY_PATH = "/.well-known/openid-configuration"
KEYS_PATH = "/openid/v1/jwks"
_CACHED = {"cache-control": "public, max-age=3600"}
"""No longer than a new key is known before it signs."""


class Issuer:
    """Answers those who verify tokens."""

    def __init__(self, signer: Signer, url: str) -> None:
        self._signer, self._url = signer, url

    def discovery(self, _: Request) -> Response:
        """The discovery document."""
        told = {
            "issuer": ISSUER,
            "jwks_uri": self._url + KEYS_PATH,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }
        return JSONResponse(told, headers=_CACHED)

    def keys(self, _: Request) -> Response:
        """The JSON Web Key Set."""
        keys = {"keys": self._signer.published()}
        return JSONResponse(keys, headers=_CACHED, media_type="application/jwk-set+json")
