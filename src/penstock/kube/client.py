"""The client of the Kubernetes API, for threads and for asyncio: plain dictionaries in and out, typed errors.

lightkube reads kubeconfigs and has the credentials, httpx sends. Paths are those of `paths`, errors those of `errors`:
every call raises KubeError.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import httpx2
import msgspec
from lightkube.config.client_adapter import ConnectionParams

from penstock.kube.config import ClusterConfig, readable
from penstock.kube.errors import NotFound, Unavailable, error_of_response, error_of_status, unavailable
from penstock.kube.kinds import ACCESS_REVIEW, SERVICE_ACCOUNT_KIND, Collection, Key, Obj, key_of
from penstock.kube.paths import api_path

PAGE = 500
"""Objects in one answer to a list."""
TIMEOUT_SECONDS = 10.0

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Change = tuple[str, Obj]
"""`ADDED`, `MODIFIED` or `DELETED`, and the object."""


class Listing(NamedTuple):
    """The objects of a kind, and the resource version to watch from."""

    objects: list[Obj]
    version: str


class Selection(NamedTuple):
    """Which objects of a kind."""

    labels: Mapping[str, str] = {}
    fields: Mapping[str, str] = {}

    def params(self) -> dict[str, str]:
        """The selection as parameters of a request."""
        given = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: ",".join(f"{key}={value}" for key, value in one.items()) for name, one in given.items() if one}


EVERY = Selection()


class _Request(NamedTuple):
    method: str
    path: str
    params: Mapping[str, str] = {}
    body: Any = None
    media: str = JSON

    def arguments(self) -> dict[str, Any]:
        """As httpx takes it."""
        sent: dict[str, Any] = {"method": self.method, "url": self.path}
        if self.params:  # httpx drops the query of the path where there are any
            sent["params"] = self.params
        if self.body is not None:
            sent |= {"content": msgspec.json.encode(self.body), "headers": {"Content-Type": self.media}}
        return sent


class _Requests:
    """The requests of both clients."""

    def __init__(self, field_manager: str) -> None:
        self._manager = {"fieldManager": field_manager} if field_manager else {}

    def fetch(self, path: str) -> _Request:
        return _Request("GET", path)

    def get(self, kind: Collection, key: Key) -> _Request:
        return _Request("GET", _path(kind, key))

    def page(self, kind: Collection, namespace: str | None, selection: Selection, token: str) -> _Request:
        more = {"continue": token} if token else {}
        return _Request("GET", _collection(kind, namespace), {"limit": str(PAGE), **selection.params(), **more})

    def watch(self, kind: Collection, version: str, namespace: str | None) -> _Request:
        return _Request("GET", _collection(kind, namespace), {"watch": "true", "resourceVersion": version})

    def create(self, kind: Collection, obj: Obj, namespace: str | None, dry_run: bool) -> _Request:
        path = _collection(kind, _place(kind, namespace or _namespace(obj)))
        return _Request("POST", path, self._written(dry_run), typed(obj, kind))

    def replace(self, kind: Collection, obj: Obj, subresource: str | None) -> _Request:
        return _Request("PUT", _path(kind, key_of(obj), subresource), self._written(), typed(obj, kind))

    def patch(self, kind: Collection, key: Key, patch: Obj, subresource: str | None) -> _Request:
        return _Request("PATCH", _path(kind, key, subresource), self._written(), patch, MERGE_PATCH)

    def apply(self, kind: Collection, obj: Obj, namespace: str | None, force: bool, dry_run: bool) -> _Request:
        key = Key(namespace or _namespace(obj), obj["metadata"]["name"])
        params = self._written(dry_run) | ({"force": "true"} if force else {})
        return _Request("PATCH", _path(kind, key), params, typed(obj, kind), APPLY_PATCH)

    def delete(self, kind: Collection, key: Key, grace_seconds: int | None) -> _Request:
        grace = {} if grace_seconds is None else {"gracePeriodSeconds": str(grace_seconds)}
        return _Request("DELETE", _path(kind, key), grace)

    def token(self, account: Key, spec: Obj) -> _Request:
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return _Request("POST", _path(SERVICE_ACCOUNT_KIND, account, "token"), body=asked)

    def access(self, spec: Obj) -> _Request:
        return _Request("POST", _collection(ACCESS_REVIEW, None), body=typed({"spec": spec}, ACCESS_REVIEW))

    def _written(self, dry_run: bool = False) -> dict[str, str]:
        return self._manager | ({"dryRun": "All"} if dry_run else {})


class Client:
    """A connection to the API, for threads."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        field_manager: str = "",
        timeout: float = TIMEOUT_SECONDS,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Raises ConfigError."""
        self._http = httpx2.Client(**http_arguments(config, timeout, transport))
        self._requests = _Requests(field_manager)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every connection."""
        self._http.close()

    def fetch(self, path: str, accept: str = JSON) -> Obj:
        """What is at a path, which is made by `paths`."""
        return _body(self._send(self._requests.fetch(path), {"Accept": accept}))

    def get(self, kind: Collection, key: Key) -> Obj:
        """The object as it is now."""
        return typed(self._ask(self._requests.get(kind, key)), kind)

    def read(self, kind: Collection, key: Key) -> Obj | None:
        """The object as it is now; None: there is none."""
        try:
            return self.get(kind, key)
        except NotFound:
            return None

    def list(self, kind: Collection, namespace: str | None = None) -> Listing:
        """The objects of a namespace, or of all of them."""
        objects: list[Obj] = []
        token = ""
        while True:
            page = self._ask(self._requests.page(kind, namespace, EVERY, token))
            objects += _items(page, kind)
            token = _metadata(page).get("continue") or ""
            if not token:
                return Listing(objects, _version(page))

    def create(self, kind: Collection, obj: Obj, namespace: str | None = None, *, dry_run: bool = False) -> Obj:
        """Creates the object, in its own namespace unless another is given."""
        return self._ask(self._requests.create(kind, obj, namespace, dry_run))

    def replace(self, kind: Collection, obj: Obj) -> Obj:
        """Stores the object in place of the version it was read at."""
        return self._ask(self._requests.replace(kind, obj, None))

    def patch(self, kind: Collection, key: Key, patch: Obj) -> Obj:
        """Changes what the patch names; None takes a field away."""
        return self._ask(self._requests.patch(kind, key, patch, None))

    def apply(
        self, kind: Collection, obj: Obj, namespace: str | None = None, *, force: bool, dry_run: bool = False
    ) -> tuple[Obj, bool]:
        """Server-side apply: creates the object, or changes its fields; whether it was created."""
        response = self._send(self._requests.apply(kind, obj, namespace, force, dry_run))
        return _body(response), response.status_code == httpx2.codes.CREATED

    def delete(self, kind: Collection, key: Key) -> None:
        """Deletes the object."""
        self._ask(self._requests.delete(kind, key, None))

    def token(self, account: Key, spec: Obj) -> Obj:
        """The status of a TokenRequest for a ServiceAccount: its `token`, and its `expirationTimestamp`."""
        return _status(self._ask(self._requests.token(account, spec)))

    def _ask(self, request: _Request) -> Obj:
        return _body(self._send(request))

    def _send(self, request: _Request, headers: Mapping[str, str] = {}) -> httpx2.Response:
        asked = request.arguments()
        with unavailable():
            response = self._http.request(**asked | {"headers": {**asked.get("headers", {}), **headers}})
        return _accepted(response)


class AsyncClient:
    """A connection to the API, for asyncio."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        field_manager: str = "",
        user: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`user`: as whom the server sees the requests, where it lets the credentials do so. Raises ConfigError."""
        self._config, self._field_manager = config, field_manager
        self._http = httpx2.AsyncClient(**http_arguments(config, TIMEOUT_SECONDS, transport))
        if user is not None:
            self._http.headers["Impersonate-User"] = user
        self._requests = _Requests(field_manager)

    @property
    def url(self) -> str:
        """The address of the API."""
        return str(self._config.cluster.server)

    def acting_as(self, user: str) -> AsyncClient:
        """A connection of its own on which the server sees that user."""
        return AsyncClient(self._config, field_manager=self._field_manager, user=user)

    async def close(self) -> None:
        """Ends every connection."""
        await self._http.aclose()

    async def fetch(self, path: str) -> Obj:
        """What is at a path, which is made by `paths`."""
        return await self._ask(self._requests.fetch(path))

    async def get(self, kind: Collection, key: Key) -> Obj:
        """The object as it is now."""
        return typed(await self._ask(self._requests.get(kind, key)), kind)

    async def read(self, kind: Collection, key: Key) -> Obj | None:
        """The object as it is now; None: there is none."""
        try:
            return await self.get(kind, key)
        except NotFound:
            return None

    async def list(self, kind: Collection, namespace: str | None = None, selection: Selection = EVERY) -> Listing:
        """The objects of a namespace, or of all of them."""
        objects: list[Obj] = []
        token = ""
        while True:
            page = await self._ask(self._requests.page(kind, namespace, selection, token))
            objects += _items(page, kind)
            token = _metadata(page).get("continue") or ""
            if not token:
                return Listing(objects, _version(page))

    @contextlib.asynccontextmanager
    async def watch(
        self, kind: Collection, version: str, namespace: str | None = None
    ) -> AsyncIterator[AsyncIterator[Change]]:
        """Changes after a resource version."""
        asked = self._requests.watch(kind, version, namespace).arguments()
        with unavailable():
            request = self._http.build_request(**asked, timeout=httpx2.Timeout(TIMEOUT_SECONDS, read=None))
            response = await self._http.send(request, stream=True)
        async with contextlib.aclosing(response):
            if not response.is_success:
                with unavailable():
                    await response.aread()
            yield _changes(_accepted(response), kind)

    async def create(self, kind: Collection, obj: Obj) -> Obj:
        """Creates the object."""
        return await self._ask(self._requests.create(kind, obj, None, False))

    async def replace(self, kind: Collection, obj: Obj) -> Obj:
        """Stores the object in place of the version it was read at."""
        return await self._ask(self._requests.replace(kind, obj, None))

    async def replace_status(self, kind: Collection, obj: Obj) -> Obj:
        """Stores the object's status in place of the version it was read at."""
        return await self._ask(self._requests.replace(kind, obj, "status"))

    async def patch(self, kind: Collection, key: Key, patch: Obj) -> Obj:
        """Changes what the patch names; None takes a field away."""
        return await self._ask(self._requests.patch(kind, key, patch, None))

    async def patch_status(self, kind: Collection, key: Key, patch: Obj) -> Obj:
        """Changes what the patch names of the object's status."""
        return await self._ask(self._requests.patch(kind, key, patch, "status"))

    async def delete(self, kind: Collection, key: Key, *, grace_seconds: int | None = None) -> None:
        """Deletes the object."""
        await self._ask(self._requests.delete(kind, key, grace_seconds))

    async def token(self, account: Key, spec: Obj) -> Obj:
        """The status of a TokenRequest for a ServiceAccount: its `token`, and its `expirationTimestamp`."""
        return _status(await self._ask(self._requests.token(account, spec)))

    async def is_allowed(self, spec: Obj) -> bool:
        """Whether the API allows what the spec of a SubjectAccessReview describes."""
        return bool(_status(await self._ask(self._requests.access(spec))).get("allowed"))

    async def _ask(self, request: _Request) -> Obj:
        with unavailable():
            response = await self._http.request(**request.arguments())
        return _body(_accepted(response))


def http_arguments(config: ClusterConfig, timeout: float, transport: Any = None) -> dict[str, Any]:
    """Arguments of httpx's clients: the address of the API, its certificates, the credentials. Raises ConfigError.

    Every watch holds a connection, so their number has no limit.
    """
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    with readable():
        params = ConnectionParams(timeout=httpx2.Timeout(timeout), trust_env=False, transport=transport)
        return {**params.httpx_params(config), "limits": limits}


def typed(obj: Obj, kind: Collection) -> Obj:
    """The object with its apiVersion and kind: items of a list of core kinds come without."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **obj}


def _collection(kind: Collection, namespace: str | None) -> str:
    return api_path(kind.api_version, kind.plural, namespace)


def _path(kind: Collection, key: Key, subresource: str | None = None) -> str:
    return api_path(kind.api_version, kind.plural, _place(kind, key.namespace), key.name, subresource)


def _place(kind: Collection, namespace: str) -> str | None:
    """The namespace as a path has it. A key never leads to an object in another scope than it says: "" is refused as a
    namespace, and nothing in a namespace is of a kind without them."""
    if kind.namespaced:
        return namespace
    if namespace:
        raise NotFound(f"{kind.kind} objects are not in namespaces")
    return None


def _metadata(obj: Obj) -> Obj:
    return obj.get("metadata") or {}


def _namespace(obj: Obj) -> str:
    return str(_metadata(obj).get("namespace") or "")


def _status(obj: Obj) -> Obj:
    return obj.get("status") or {}


def _version(page: Obj) -> str:
    return str(_metadata(page).get("resourceVersion") or "")


def _items(page: Obj, kind: Collection) -> list[Obj]:
    return [typed(item, kind) for item in page.get("items") or ()]


def _accepted(response: httpx2.Response) -> httpx2.Response:
    if not response.is_success:
        raise error_of_response(response)
    return response


def _body(response: httpx2.Response) -> Obj:
    return _decoded(response.content) if response.content else {}


def _decoded(content: bytes | str) -> Obj:
    with unavailable():
        decoded = msgspec.json.decode(content)
    if not isinstance(decoded, dict):
        raise Unavailable("the answer is not a JSON object")
    return decoded


async def _changes(response: httpx2.Response, kind: Collection) -> AsyncIterator[Change]:
    lines = response.aiter_lines()
    while True:
        with unavailable():
            line = await anext(lines, None)
        if line is None:
            return
        if (change := _change(line, kind)) is not None:
            yield change


def _change(line: str, kind: Collection) -> Change | None:
    """What a line of a watch says; None: nothing about an object."""
    if not line:
        return None
    event = _decoded(line)
    if event["type"] == "ERROR":
        raise error_of_status(event["object"])
    return None if event["type"] == "BOOKMARK" else (event["type"], typed(event["object"], kind))
