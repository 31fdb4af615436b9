"""The console as an ASGI application: routes, sign-in and error pages; and as a component that serves it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.console import live, login, route_page, routes_page, stack_page
from penstock.console.console import OPERATED, Console, OperatorsOnly
from penstock.console.events import deadletters_page, event_page, playground_page, search_page, tail_page
from penstock.console.events.state import EventsState
from penstock.console.guard import ConsoleGuard, names_of
from penstock.console.map import page as map_page
from penstock.console.pages import problem_page, problem_response
from penstock.runtime.errors import UserError
from penstock.runtime.lifecycle import Lifecycle, first
from penstock.settings import Settings
from penstock.web.server import HttpServer, listen
from penstock.web.tls_server import ServerTls

PUBLIC = ("/static/", "/healthz")
"""Paths that need no session."""


def application(console: Console) -> Starlette:
    """Every page of the console. To add one, write its `ROUTES` and add them here."""
    names = names_of(console.settings.host, console.settings.console_hosts)
    app = Starlette(
        routes=[
            *login.ROUTES,
            *map_page.ROUTES,
            *routes_page.ROUTES,
            *route_page.ROUTES,
            *stack_page.ROUTES,
            *search_page.ROUTES,
            *tail_page.ROUTES,
            *event_page.ROUTES,
            *deadletters_page.ROUTES,
            *playground_page.ROUTES,
            Route("/live/numbers", live.numbers),
            Route("/healthz", healthy),
            Mount("/static", StaticFiles(directory=Path(__file__).with_name("static"))),
        ],
        middleware=[
            Middleware(ConsoleGuard, names=names),
            Middleware(SignedIn, console=console),
            Middleware(GZipMiddleware),
        ],
        exception_handlers={UserError: problem_response, OperatorsOnly: operators_only, HTTPException: not_found},
    )
    app.state.console = console
    app.state.events = EventsState(console.settings, console.stopping)
    return app


async def healthy(request: Request) -> Response:
    """The health check."""
    return JSONResponse({"status": "ok"})


async def operators_only(request: Request, error: Exception) -> Response:
    """The error page for users who are not operators."""
    problem = UserError(
        "This page is for operators.",
        f"Sign in with a token that has all permissions on {' and '.join(OPERATED)} in all namespaces.",
    )
    return problem_page(request, 403, "403 Forbidden", problem)


async def not_found(request: Request, error: Exception) -> Response:
    """The error page for a path that does not exist, or an invalid request."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404:
        return problem_page(request, status, "404 Not found", UserError("This page does not exist."))
    return problem_page(request, status, "Invalid request", UserError(f"The request is invalid (status {status})."))


class SignedIn:
    """Finds the session of each request. Without a session only the sign-in pages are available."""

    def __init__(self, app: ASGIApp, console: Console) -> None:
        self._app, self._console = app, console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"].startswith(PUBLIC):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        signs_in = f"{scope['path']}/".startswith("/login/")
        request.state.session = None
        try:
            request.state.session = await self._console.sessions.of(request)
        except UserError as problem:
            if not signs_in:
                await (await problem_response(request, problem))(scope, receive, send)
                return
        if signs_in or request.state.session is not None:
            await self._app(scope, receive, send)
            return
        await _sign_in_first(request)(scope, receive, send)


def _sign_in_first(request: Request) -> Response:
    """Redirects a browser that opens a page to the sign-in form; scripts get an error as JSON."""
    goes = request.headers.get("sec-fetch-mode", "navigate") == "navigate"
    if goes and request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", ""):
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"/login?to={quote(request.url.path + query)}", 303)
    return JSONResponse({"problem": "Sign in first."}, 401)


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Serves the console until `lifecycle` stops, then lets open streams end."""
    given = listen(lifecycle, "the console", settings.host, settings.console_port, "console_port")
    with contextlib.closing(given) as listener:
        host, port = listener.getsockname()[:2]
        console = Console(settings.model_copy(update={"console_port": port}), lifecycle.stopping)
        app = application(console)
        tls = ServerTls(settings) if settings.tls else None
        if tls is not None:
            tls.begin(lifecycle)
        server = HttpServer(app, listener, None if tls is None else tls.context)
        try:
            async with server.listening(settings.drain_seconds):
                lifecycle.ready(url=f"{settings.scheme}://{host}:{port}")
                await first(lifecycle.stopping.wait(), *([] if tls is None else [tls.run()]))
        finally:
            await app.state.events.close()
            console.close()
