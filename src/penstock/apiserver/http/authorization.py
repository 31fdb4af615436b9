"""Authentication, impersonation, authorization and limits of every request, before it is routed.

Only what depends on the body of a request is checked later: RBAC escalation, and creation by server-side apply.
"""

from __future__ import annotations

import contextlib
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.apiserver import errors
from penstock.apiserver.access.authentication import Authenticator
from penstock.apiserver.access.identity import User, account_of, acting_as
from penstock.apiserver.access.policy import Authorizer
from penstock.apiserver.access.rules import AccessRequest
from penstock.apiserver.errors import ApiError
from penstock.apiserver.http.request_info import request_info
from penstock.apiserver.http.request_limits import RequestLimits
from penstock.apiserver.http.responses import error_response
from penstock.apiserver.http.served_documents import DISCOVERY_PATH, KEYS_PATH

OPEN_PATHS = ("/livez", "/readyz", "/healthz", DISCOVERY_PATH, KEYS_PATH)
_IMPERSONATE = b"impersonate-"
_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"


class AccessMiddleware:
    """ASGI middleware: requests without a valid token get 401, those not allowed 403, and those over a limit 429."""

    def __init__(
        self, app: ASGIApp, authenticator: Authenticator, authorizer: Authorizer, limits: RequestLimits
    ) -> None:
        self._app, self._authenticator, self._authorizer, self._limits = app, authenticator, authorizer, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Checks the request and puts its user into the state."""
        if scope["type"] == "websocket":
            # No WebSocket is served. Closed here, so that none can reach the application without authorization.
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        with contextlib.ExitStack() as running:
            try:
                headers = Headers(scope=scope)
                caller = state["user"] = self._caller(scope, headers)
                user = state["user"] = self._effective_user(scope, headers, caller)
                if user is not caller:
                    state["acting"] = caller
                info = request_info(scope)
                if not user.is_master:
                    self._authorizer.demand(user, info.access)
                has_body, is_watch = scope["method"] not in ("GET", "HEAD"), info.verb == "watch"
                running.enter_context(self._limits.request(caller, has_body=has_body, is_watch=is_watch))
            except ApiError as error:
                await error_response(error)(scope, receive, send)
                return
            await self._app(scope, receive, send)

    def _caller(self, scope: Scope, headers: Headers) -> User:
        """The user of the token. Raises 401, or 429 after too many wrong tokens."""
        authorization, address = headers.get("authorization"), (scope.get("client") or ("",))[0]
        if authorization is None:
            raise errors.unauthorized()
        user = self._authenticator.user(authorization)
        if user is None:
            raise self._limits.wrong_token(address)
        return user

    def _effective_user(self, scope: Scope, headers: Headers, caller: User) -> User:
        """The user that the request acts as: the caller, or the one to impersonate if the caller may do that."""
        if not any(name.startswith(_IMPERSONATE) for name, _ in scope["headers"]):
            return caller
        other = impersonated(headers)
        for request in impersonations(other, headers.getlist("impersonate-group")):
            self._authorizer.demand(caller, request)
        return other


def impersonated(headers: Headers) -> User:
    """The user that the request wants to impersonate; raises 400 if it names groups, a uid or extra values only."""
    name, groups = headers.get("impersonate-user", ""), headers.getlist("impersonate-group")
    uid = headers.get("impersonate-uid", "")
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        if header.startswith(_EXTRA):
            key = unquote(header.removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), value)
    if not name:
        raise errors.bad_request("requested impersonation of groups, a uid or extra values without a user")
    return acting_as(name, groups, uid, tuple(extra.items()))


def impersonations(user: User, groups: list[str]) -> list[AccessRequest]:
    """What the caller must be allowed to do to impersonate this user with the groups named in the request."""
    account = account_of(user.name)
    needed = [
        AccessRequest("impersonate", "", "serviceaccounts", namespace=account[0], name=account[1])
        if account
        else AccessRequest("impersonate", "", "users", name=user.name)
    ]
    needed += [AccessRequest("impersonate", "", "groups", name=group) for group in groups]
    for key, values in user.extra:
        needed += [AccessRequest("impersonate", _AUTHENTICATION, "userextras", key, name=value) for value in values]
    if user.uid:
        needed.append(AccessRequest("impersonate", _AUTHENTICATION, "uids", name=user.uid))
    return needed
