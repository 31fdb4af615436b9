"""The ASGI application of the API: its routes, and the dispatch of requests to the verbs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.apiserver import errors
from penstock.apiserver.access import account_tokens
from penstock.apiserver.access.authentication import Authenticator
from penstock.apiserver.access.policy import Authorizer
from penstock.apiserver.access.reviews import Reviews
from penstock.apiserver.documents import decode
from penstock.apiserver.errors import ApiError
from penstock.apiserver.http import pod_logs, requests
from penstock.apiserver.http.authorization import AccessMiddleware
from penstock.apiserver.http.read_endpoints import ReadEndpoints
from penstock.apiserver.http.request_info import RequestInfo, request_info
from penstock.apiserver.http.request_limits import RequestLimits
from penstock.apiserver.http.requests import ResourcePath
from penstock.apiserver.http.responses import error_response, object_response, warn
from penstock.apiserver.http.served_documents import DISCOVERY_PATH, KEYS_PATH, Issuer, OpenApiDocuments
from penstock.apiserver.http.watching import WatchResponse
from penstock.apiserver.http.write_endpoints import WriteEndpoints
from penstock.apiserver.kinds import discovery
from penstock.apiserver.kinds.discovery import subresource_verbs
from penstock.apiserver.kinds.registry import Registry
from penstock.apiserver.store.storage import Store
from penstock.kube.kinds import Obj
from penstock.runtime.files import path_below

log = structlog.get_logger(__name__)

VERSION = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.0+penstock",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


class ApiApp:
    """The routes and the endpoints behind them."""

    def __init__(
        self,
        registry: Registry,
        store: Store,
        reader: ReadEndpoints,
        writer: WriteEndpoints,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        limits: RequestLimits,
        address: str,
        logs: Path,
    ) -> None:
        self._registry, self._store, self._reader, self._writer = registry, store, reader, writer
        self._authenticator, self._authorizer, self._limits = authenticator, authorizer, limits
        self._reviews = Reviews(authenticator, authorizer)
        self._address, self._logs = address, logs
        self._openapi = OpenApiDocuments(registry)
        self._issuer = Issuer(authenticator.signer, f"https://{address}")

    def application(self) -> ASGIApp:
        """The ASGI application."""
        routes = [
            Route("/livez", _healthy),
            Route("/readyz", _healthy),
            Route("/healthz", _healthy),
            Route(DISCOVERY_PATH, self._issuer.discovery),
            Route(KEYS_PATH, self._issuer.keys),
            Route("/version", lambda _: object_response(dict(VERSION))),
            Route("/api", self._groups),
            Route("/apis", self._groups),
            Route("/apis/{group}", self._group),
            Route("/api/{version}", self._resources),
            Route("/apis/{group}/{version}", self._resources),
            Route("/openapi/v2", self._openapi.respond),
            Route("/openapi/v3", self._openapi.respond),
            Route("/openapi/v3/{path:path}", self._openapi.respond),
            Route("/{path:path}", self._resource, methods=_METHODS),
        ]
        app = Starlette(routes=routes, exception_handlers=_ERRORS)
        # Kubernetes ignores a slash at the end of a path, and does not redirect.
        app.router.redirect_slashes = False
        return AccessMiddleware(_without_last_slash(app), self._authenticator, self._authorizer, self._limits)

    def _groups(self, request: Request) -> Response:
        form = requests.accepted_form(request.headers.get("accept"))
        core, kinds = request.scope["path"] == "/api", self._registry.all()
        if form.discovery:
            listed = discovery.aggregated(kinds, core=core, version=form.discovery)
            response = object_response(listed)
            response.headers["content-type"] = (
                f"application/json;g={discovery.AGGREGATED};v={form.discovery};as=APIGroupDiscoveryList"
            )
            return response
        return object_response(discovery.api_versions(self._address) if core else discovery.api_groups(kinds))

    def _group(self, request: Request) -> Response:
        group = request.path_params["group"]
        versions = discovery.groups(self._registry.all()).get(group)
        if not versions:
            raise errors.no_such_path()
        return object_response(discovery.api_group(group, versions))

    def _resources(self, request: Request) -> Response:
        group, version = request.path_params.get("group", ""), request.path_params["version"]
        listed = discovery.resources(self._registry.all(), group, version)
        if listed is None:
            raise errors.no_such_path()
        return object_response(listed)

    async def _resource(self, request: Request) -> Response | WatchResponse:
        info = request_info(request.scope)
        path, verb = requests.locate(info, self._registry), info.verb
        if not _verb_fits_path(info) or verb not in (
            subresource_verbs(path.subresource) if path.subresource else path.kind.verbs
        ):
            raise errors.not_supported(path.kind.kind) if path.kind.read_only else errors.method_not_allowed()
        if path.subresource == "token":
            return await self._token(request, path)
        if path.subresource == "log":
            return self._pod_log(request, path)
        if path.kind.verbs == ("create",):
            return await self._review(request, path)
        actions: dict[str, Callable[[Request, ResourcePath], Awaitable[Response | WatchResponse]]] = {
            "list": self._reader.list,
            "watch": self._reader.watch,
            "create": self._writer.create,
            "update": self._writer.update,
            "patch": self._writer.patch,
            "delete": self._writer.delete,
            "deletecollection": self._writer.delete_collection,
        }
        response = self._reader.get(request, path) if verb == "get" else await actions[verb](request, path)
        if path.kind.deprecation and isinstance(response, Response):
            warn(response, [path.kind.deprecation])
        return response

    async def _review(self, request: Request, path: ResourcePath) -> Response:
        body = await requests.read_body(request)
        review = requests.parse_object(body, requests.media_type(request))
        completed = self._reviews.completed(path.kind, review, request.state.user, path.namespace)
        return object_response(completed, status=201)

    async def _token(self, request: Request, path: ResourcePath) -> Response:
        """Issues a token for a ServiceAccount."""
        token_request = requests.parse_object(await requests.read_body(request), requests.media_type(request))
        authenticator = self._authenticator
        issued = account_tokens.issue_token(
            token_request,
            path.namespace or "",
            path.name,
            lookup=authenticator.lookup,
            signer=authenticator.signer,
            now=authenticator.clock(),
        )
        return object_response(issued, status=201)

    def _pod_log(self, request: Request, path: ResourcePath) -> Response:
        def pod() -> Obj | None:
            body = self._store.get("pods", path.namespace or "", path.name)
            return None if body is None else decode(body)

        found = pod()
        if found is None:
            raise errors.not_found("", "pods", path.name)
        folder = path_below(self._logs, path.namespace or "", path.name)
        return pod_logs.respond(folder, found, request.query_params, pod)


def _verb_fits_path(info: RequestInfo) -> bool:
    """Whether the verb fits the path: objects are created in collections, and changed by name."""
    match info.verb:
        case "create":
            return not info.name or bool(info.subresource)
        case "update" | "patch":
            return bool(info.name)
        case "delete":
            return not info.subresource
    return True


def _without_last_slash(app: ASGIApp) -> ASGIApp:
    """Serves `/version/` as `/version`."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if len(path) > 1 and path.endswith("/"):
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await app(scope, receive, send)

    return served


def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok")


async def _on_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101  # registered for this type only
    return error_response(error)


async def _on_exception(request: Request, error: Exception) -> Response:
    if isinstance(error, RecursionError):
        return error_response(errors.bad_request("the object is nested too deeply"))
    # The path and not `request.url`, which raises for some queries.
    log.error("request failed", method=request.method, path=request.scope["path"], exc_info=error)
    return error_response(ApiError(500, "InternalError", f"Internal error occurred: {type(error).__name__}"))


async def _on_disconnect(_request: Request, _error: Exception) -> Response:
    """Ends a request whose client has disconnected; nothing of this is sent."""
    return Response(status_code=400)


_ERRORS = {ApiError: _on_api_error, ClientDisconnect: _on_disconnect, Exception: _on_exception}
