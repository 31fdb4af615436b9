"""The OpenAPI documents over HTTP: made once for the kinds that are served, in the form that is asked for."""

from __future__ import annotations

from functools import lru_cache

from starlette.requests import Request
from starlette.responses import Response

from penstock.apiserver import errors
from penstock.apiserver.documents import encode
from penstock.apiserver.kinds import openapi
from penstock.apiserver.kinds.registry import Registry, ServedKind
from penstock.apiserver.protobuf import openapi_v2

_JSON = "application/json"


class OpenApiDocuments:
    """`/openapi/v2`, `/openapi/v3` and the document of each group version below it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        # Kinds are compared by identity, so a changed definition is a new key.
        self._document = lru_cache(64)(_document)

    def respond(self, request: Request) -> Response:
        """The document at the request's path."""
        path = request.scope["path"]
        media = _JSON
        if path == "/openapi/v2" and prefers_protobuf(request.headers.get("accept")):
            media = openapi_v2.ANSWERED_MEDIA
        return Response(self._document(self._registry.all(), path, media), media_type=media)


def prefers_protobuf(accept: str | None) -> bool:
    """Whether an `Accept` header names the protobuf form of OpenAPI v2 before any other."""
    first = (accept or "").split(",")[0].partition(";")[0].strip()
    return first in (openapi_v2.MEDIA, openapi_v2.ANSWERED_MEDIA)


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
