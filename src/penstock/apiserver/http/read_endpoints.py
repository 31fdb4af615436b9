"""Get, list and watch over HTTP, from committed state."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.apiserver import errors
from penstock.apiserver.documents import decode, encode, labels_of
from penstock.apiserver.http import selectors
from penstock.apiserver.http.rendering import CLOSING, Renderer
from penstock.apiserver.http.request_info import request_info
from penstock.apiserver.http.requests import ResourcePath, accepted_form, whole_number
from penstock.apiserver.http.responses import json_response, list_response, pieces, streamed
from penstock.apiserver.http.watching import DEFAULT_TIMEOUT_SECONDS, Watches, WatchResponse, WatchScope, WatchStart
from penstock.apiserver.kinds.scale import scale_of
from penstock.apiserver.store.storage import PART_BYTES, ListPage, Store
from penstock.apiserver.verbs.history import WatchHistory
from penstock.kube.kinds import Obj

Keep = Callable[[bytes], bool]


class ReadEndpoints:
    """Get, list and watch."""

    def __init__(self, store: Store, history: WatchHistory, watches: Watches) -> None:
        self._store, self._history, self._watches = store, history, watches

    def get(self, request: Request, path: ResourcePath) -> Response:
        """One object."""
        body = self._store.get(path.kind.resource, path.namespace or "", path.name)
        if body is None:
            raise errors.not_found(path.kind.group, path.kind.plural, path.name)
        if path.subresource == "scale":
            form = accepted_form(request.headers.get("accept"))
            return json_response(encode(scale_of(decode(body))), as_yaml=form.yaml)
        renderer = self._renderer(request, path)
        return json_response(renderer.one(body), as_yaml=renderer.form.yaml)

    async def list(self, request: Request, path: ResourcePath) -> Response:
        """A collection, or a page of it."""
        query = request.query_params
        renderer = self._renderer(request, path)
        keep, _ = selection(request, path)
        limit = whole_number(query, "limit") or 0
        after, token_version = _parse_token(query.get("continue", ""))
        self._check_version(query.get("resourceVersion", ""))
        resource, namespace = path.kind.resource, self._namespace(path)
        # A page may be shorter than the client's limit; without a limit, all objects are in one response.
        following = self._store.parts(resource, namespace, keep=keep, after=after)
        if limit:
            page = await self._store.page(
                resource, namespace, keep=keep, limit=limit, max_bytes=PART_BYTES, after=after
            )
        else:
            page = await anext(following)
        # All pages carry the version of the first, so that a watch from it misses no change made between the pages.
        version = token_version or page.version
        metadata: Obj = {"resourceVersion": str(version)}
        if page.next_key is not None and not limit and not renderer.form.yaml:
            return streamed(_whole(renderer, metadata, page.bodies, following))
        await following.aclose()
        if page.next_key is not None and not limit:
            raise errors.bad_request("the list is too long for YAML in one response: ask for JSON, or set a limit")
        if page.next_key is not None:
            metadata["continue"] = _token(page.next_key, version)
            if not keep:
                metadata["remainingItemCount"] = page.remaining
        listed = renderer.many(page.bodies, metadata)
        return json_response(b"".join(listed), as_yaml=True) if renderer.form.yaml else list_response(listed)

    async def watch(self, request: Request, path: ResourcePath) -> Response | WatchResponse:
        """Changes of a collection, or of one object."""
        query = request.query_params
        renderer = self._renderer(request, path)
        keep, name = selection(request, path)
        name = path.name or name
        seconds = whole_number(query, "timeoutSeconds")
        version_text = query.get("resourceVersion", "")
        initial = query.get("sendInitialEvents") == "true"
        if initial or version_text in ("", "0"):
            parts = self._store.parts(path.kind.resource, self._namespace(path), keep=_named(name, keep))
            page = await anext(parts)
            start = WatchStart(page.version, _bodies(page.bodies, parts), announce_end=initial)
        else:
            start = WatchStart(self._check_version(version_text) or 0)
        return WatchResponse(
            self._watches,
            self._history,
            renderer,
            WatchScope(path.namespace if path.kind.namespaced else None, name, keep),
            start,
            timeout=float(seconds) if seconds else DEFAULT_TIMEOUT_SECONDS,
            bookmarks=query.get("allowWatchBookmarks") in ("true", "1"),
        )

    def _namespace(self, path: ResourcePath) -> str | None:
        return path.namespace if path.kind.namespaced else ""

    def _renderer(self, request: Request, path: ResourcePath) -> Renderer:
        include = request.query_params.get("includeObject", "Metadata")
        return Renderer(path.kind, accepted_form(request.headers.get("accept")), include)

    def _check_version(self, text: str) -> int | None:
        """The version in the query. Raises 400 if it is not a number, 504 if it has not been reached."""
        if not text:
            return None
        version = whole_number({"resourceVersion": text}, "resourceVersion") or 0
        current = self._store.version()
        if version > current:
            raise errors.future_version(version, current)
        return version


async def _whole(
    renderer: Renderer, metadata: Obj, first: list[bytes], following: AsyncIterator[ListPage]
) -> AsyncIterator[bytes]:
    """A list that does not fit into memory: part after part is read while it is sent."""
    yield renderer.opening(metadata)
    continues = False
    async for bodies in _bodies(first, following):
        for piece in pieces(renderer.items(bodies, continues=continues)):
            yield piece
        continues = True
    yield CLOSING


async def _bodies(first: list[bytes], following: AsyncIterator[ListPage]) -> AsyncIterator[list[bytes]]:
    """The objects of each part."""
    yield first
    del first  # freed before the next part is read
    async for page in following:
        yield page.bodies


def selection(request: Request, path: ResourcePath) -> tuple[Keep | None, str | None]:
    """A test of encoded objects, None if all pass; and the only name that can pass, if there is one."""
    labels = selectors.parse_labels(request.query_params.get("labelSelector", ""))
    # The text that the request was authorized by; reading the query again could give another.
    fields = selectors.parse_fields(request_info(request.scope).field_selector)
    selectors.check_fields(fields, path.kind.field_selectors)
    if not labels and not fields:
        return None, None

    def keep(body: bytes) -> bool:
        if labels and not selectors.matches_labels(labels, labels_of(body)):
            return False
        return not fields or selectors.matches_fields(fields, decode(body))

    return keep, selectors.exact_name(fields)


def _named(name: str | None, keep: Keep | None) -> Keep | None:
    if name is None:
        return keep
    return lambda body: decode(body)["metadata"]["name"] == name and (keep is None or keep(body))


def _token(key: tuple[str, str], version: int) -> str:
    return base64.urlsafe_b64encode(encode([*key, version])).decode()


def _parse_token(text: str) -> tuple[tuple[str, str], int]:
    if not text:
        return ("", ""), 0
    try:
        namespace, name, version = msgspec.json.decode(base64.urlsafe_b64decode(text), type=tuple[str, str, int])
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise errors.bad_request("continue key is not valid") from None
    return (namespace, name), version
