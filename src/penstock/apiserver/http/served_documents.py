"""Documents over HTTP: OpenAPI of the served kinds, and OpenID Connect discovery with the public signing keys.

The latter are readable without a token, as OpenID Connect requires: verifiers of tokens need not have one.
"""

from __future__ import annotations

from functools import lru_cache

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from penstock.apiserver import errors
from penstock.apiserver.access.account_tokens import API_ISSUER
from penstock.apiserver.access.signing_keys import ALGORITHM, Signer
from penstock.apiserver.documents import encode
from penstock.apiserver.kinds import openapi
from penstock.apiserver.kinds.registry import Registry, ServedKind
from penstock.apiserver.protobuf import openapi_v2

_JSON = "application/json"
DISCOVERY_PATH = "/.well-known/openid-configuration"
KEYS_PATH = "/openid/v1/jwks"
_CACHED = {"cache-control": "public, max-age=3600"}
"""Not longer than AHEAD_SECONDS, for which a new key is published before it signs."""


class OpenApiDocuments:
    """`/openapi/v2`, `/openapi/v3` and the document of each group version below it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        # Kinds are compared by identity, so a changed definition is a new cache key.
        self._document = lru_cache(64)(_document)

    def respond(self, request: Request) -> Response:
        """The document at the request's path."""
        path = request.scope["path"]
        media = _JSON
        if path == "/openapi/v2" and prefers_protobuf(request.headers.get("accept")):
            media = openapi_v2.RESPONSE_MEDIA
        return Response(self._document(self._registry.all(), path, media), media_type=media)


def prefers_protobuf(accept: str | None) -> bool:
    """Whether an `Accept` header names the protobuf form of OpenAPI v2 before any other."""
    first = (accept or "").split(",")[0].partition(";")[0].strip()
    return first in (openapi_v2.MEDIA, openapi_v2.RESPONSE_MEDIA)


def _document(kinds: tuple[ServedKind, ...], path: str, media: str) -> bytes:
    if path == "/openapi/v2":
        swagger = openapi.document_v2(kinds)
        return encode(swagger) if media == _JSON else openapi_v2.document(swagger)
    if path == "/openapi/v3":
        return encode(openapi.index(kinds))
    parts = path.removeprefix("/openapi/v3/").split("/")
    group, version = ("", parts[1]) if parts[0] == "api" and len(parts) == 2 else ("", "")
    if parts[0] == "apis" and len(parts) == 3:
        group, version = parts[1], parts[2]
    document = openapi.document(kinds, group, version)
    if document is None:
        raise errors.no_such_path()
    return encode(document)


class Issuer:
    """The API as an OpenID Connect issuer."""

    def __init__(self, signer: Signer, url: str) -> None:
        self._signer, self._url = signer, url

    def discovery(self, _: Request) -> Response:
        """The discovery document."""
        document = {
            "issuer": API_ISSUER,
            "jwks_uri": self._url + KEYS_PATH,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }
        return JSONResponse(document, headers=_CACHED)

    def keys(self, _: Request) -> Response:
        """The JSON Web Key Set."""
        keys = {"keys": self._signer.published()}
        return JSONResponse(keys, headers=_CACHED, media_type="application/jwk-set+json")
