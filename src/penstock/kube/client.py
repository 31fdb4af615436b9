"""The client of the Kubernetes API, for threads and for asyncio: plain dictionaries in and out, typed errors.

lightkube reads kubeconfigs and provides the credentials, httpx sends the requests. Paths are made by `paths`, errors by
`errors`: every call raises KubeError.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NamedTuple

import httpcore2
import httpx2
import msgspec
from lightkube.config.client_adapter import ConnectionParams

from penstock.kube.config import ClusterConfig, as_config_error
from penstock.kube.errors import NotFound, Unavailable, as_unavailable, error_of_response, error_of_status
from penstock.kube.kinds import ACCESS_REVIEW, SERVICE_ACCOUNT_KIND, Collection, Key, Obj, key_of
from penstock.kube.paths import api_path

PAGE = 500
"""Objects per response to a list."""
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
        """The selection as query parameters."""
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
        """The arguments for httpx."""
        arguments: dict[str, Any] = {"method": self.method, "url": self.path}
        if self.params:  # with `params`, even empty ones, httpx drops the query of the path
            arguments["params"] = self.params
        if self.body is not None:
            arguments |= {"content": msgspec.json.encode(self.body), "headers": {"Content-Type": self.media}}
        return arguments


class _Requests:
    """Builds the requests of both clients."""

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
        path = _collection(kind, _namespace_in_path(kind, namespace or _namespace(obj)))
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
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return _Request("POST", _path(SERVICE_ACCOUNT_KIND, account, "token"), body=body)

    def access(self, spec: Obj) -> _Request:
        return _Request("POST", _collection(ACCESS_REVIEW, None), body=typed({"spec": spec}, ACCESS_REVIEW))

    def _written(self, dry_run: bool = False) -> dict[str, str]:
        return self._manager | ({"dryRun": "All"} if dry_run else {})


class Client:
    """A client for threads."""

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
        """Closes every connection."""
        self._http.close()

    def fetch(self, path: str, accept: str = JSON) -> Obj:
        """The document at a path, which `paths` has made."""
        return _body(self._send(self._requests.fetch(path), {"Accept": accept}))

    def get(self, kind: Collection, key: Key) -> Obj:
        """The object. Raises NotFound."""
        return typed(self._ask(self._requests.get(kind, key)), kind)

    def read(self, kind: Collection, key: Key) -> Obj | None:
        """The object; None if it does not exist."""
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
        """Replaces the object, if it is still the version that was read. Raises Conflict."""
        return self._ask(self._requests.replace(kind, obj, None))

    def patch(self, kind: Collection, key: Key, patch: Obj) -> Obj:
        """Merge patch: changes the fields in the patch; None removes a field."""
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
        arguments = request.arguments()
        with as_unavailable():
            response = self._http.request(**arguments | {"headers": {**arguments.get("headers", {}), **headers}})
        return _accepted(response)


class _Network(httpcore2.AnyIOBackend):
    """Connections that are closed when a request is cancelled during their TLS handshake, as a Pod's may be when it is
    deleted. httpcore leaves such a socket open."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # as httpcore has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Opens a connection."""
        return _Connection(await super().connect_tcp(host, port, timeout, local_address, socket_options))


class _Connection(httpcore2.AsyncNetworkStream):
    """A TCP connection before its TLS handshake."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  # as httpcore has it
        """Reads what has arrived."""
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  # as httpcore has it
        """Writes all of it."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # as httpcore has it
    ) -> httpcore2.AsyncNetworkStream:
        """The same connection with TLS."""
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        """What is known of the socket."""
        return self._stream.get_extra_info(info)


class AsyncClient:
    """A client for asyncio."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        field_manager: str = "",
        user: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`user`: the user to impersonate, if the credentials allow that. Raises ConfigError."""
        self._config, self._field_manager = config, field_manager
        self._http = httpx2.AsyncClient(**http_arguments(config, TIMEOUT_SECONDS, transport))
        if transport is None:  # httpx has no argument for it
            self._http._transport._pool._network_backend = _Network()  # type: ignore[attr-defined]
        if user is not None:
            self._http.headers["Impersonate-User"] = user
        self._requests = _Requests(field_manager)

    @property
    def url(self) -> str:
        """The address of the API."""
        return str(self._config.cluster.server)

    def acting_as(self, user: str) -> AsyncClient:
        """Another client, which impersonates the user."""
        return AsyncClient(self._config, field_manager=self._field_manager, user=user)

    async def close(self) -> None:
        """Closes every connection."""
        await self._http.aclose()

    async def fetch(self, path: str) -> Obj:
        """The document at a path, which `paths` has made."""
        return await self._ask(self._requests.fetch(path))

    async def get(self, kind: Collection, key: Key) -> Obj:
        """The object. Raises NotFound."""
        return typed(await self._ask(self._requests.get(kind, key)), kind)

    async def read(self, kind: Collection, key: Key) -> Obj | None:
        """The object; None if it does not exist."""
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
        """Watches: opens a stream of the changes after a resource version."""
        arguments = self._requests.watch(kind, version, namespace).arguments()
        with as_unavailable():
            request = self._http.build_request(**arguments, timeout=httpx2.Timeout(TIMEOUT_SECONDS, read=None))
            response = await self._http.send(request, stream=True)
        async with contextlib.aclosing(response):
            if not response.is_success:
                with as_unavailable():
                    await response.aread()
            yield _changes(_accepted(response), kind)

    async def create(self, kind: Collection, obj: Obj) -> Obj:
        """Creates the object."""
        return await self._ask(self._requests.create(kind, obj, None, False))

    async def replace(self, kind: Collection, obj: Obj) -> Obj:
        """Replaces the object, if it is still the version that was read. Raises Conflict."""
        return await self._ask(self._requests.replace(kind, obj, None))

    async def replace_status(self, kind: Collection, obj: Obj) -> Obj:
        """Replaces the object's status, if it is still the version that was read. Raises Conflict."""
        return await self._ask(self._requests.replace(kind, obj, "status"))

    async def patch(self, kind: Collection, key: Key, patch: Obj) -> Obj:
        """Merge patch: changes the fields in the patch; None removes a field."""
        return await self._ask(self._requests.patch(kind, key, patch, None))

    async def patch_status(self, kind: Collection, key: Key, patch: Obj) -> Obj:
        """Merge patch of the object's status."""
        return await self._ask(self._requests.patch(kind, key, patch, "status"))

    async def delete(self, kind: Collection, key: Key, *, grace_seconds: int | None = None) -> None:
        """Deletes the object."""
        await self._ask(self._requests.delete(kind, key, grace_seconds))

    async def token(self, account: Key, spec: Obj) -> Obj:
        """The status of a TokenRequest for a ServiceAccount: its `token`, and its `expirationTimestamp`."""
        return _status(await self._ask(self._requests.token(account, spec)))

    async def is_allowed(self, spec: Obj) -> bool:
        """Whether the API allows the request in the spec of a SubjectAccessReview."""
        return bool(_status(await self._ask(self._requests.access(spec))).get("allowed"))

    async def _ask(self, request: _Request) -> Obj:
        with as_unavailable():
            response = await self._http.request(**request.arguments())
        return _body(_accepted(response))


def http_arguments(config: ClusterConfig, timeout: float, transport: Any = None) -> dict[str, Any]:
    """Arguments of httpx's clients: the address of the API, its certificates, the credentials. Raises ConfigError.

    Connections are not limited, since every watch holds one.
    """
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    with as_config_error():
        params = ConnectionParams(timeout=httpx2.Timeout(timeout), trust_env=False, transport=transport)
        return {**params.httpx_params(config), "limits": limits}


def typed(obj: Obj, kind: Collection) -> Obj:
    """The object with its apiVersion and kind, which items of lists of core kinds do not have."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **obj}


def _collection(kind: Collection, namespace: str | None) -> str:
    return api_path(kind.api_version, kind.plural, namespace)


def _path(kind: Collection, key: Key, subresource: str | None = None) -> str:
    return api_path(kind.api_version, kind.plural, _namespace_in_path(kind, key.namespace), key.name, subresource)


def _namespace_in_path(kind: Collection, namespace: str) -> str | None:
    """The namespace for a path. A key never leads to an object of another scope: `api_path` refuses an empty namespace,
    and a namespace is refused here for cluster-scoped kinds."""
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
    with as_unavailable():
        decoded = msgspec.json.decode(content)
    if not isinstance(decoded, dict):
        raise Unavailable("the response is not a JSON object")
    return decoded


async def _changes(response: httpx2.Response, kind: Collection) -> AsyncIterator[Change]:
    lines = response.aiter_lines()
    while True:
        with as_unavailable():
            line = await anext(lines, None)
        if line is None:
            return
        if (change := _change(line, kind)) is not None:
            yield change


def _change(line: str, kind: Collection) -> Change | None:
    """The change in a line of a watch; None for bookmarks and empty lines. Raises the KubeError of an error line."""
    if not line:
        return None
    event = _decoded(line)
    if event["type"] == "ERROR":
        raise error_of_status(event["object"])
    return None if event["type"] == "BOOKMARK" else (event["type"], typed(event["object"], kind))
