"""The console as an application: its pages, and what stands before them."""

from __future__ import annotations

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

from penstock.console import live, login, routes_page
from penstock.console.console import Console, NotForYou
from penstock.console.events import pages as events
from penstock.console.events.room import EventsRoom
from penstock.console.guard import ConsoleGuard, names_of
from penstock.console.map import page as map_page
from penstock.console.pages import problem_page, told
from penstock.console.route import page as route_page
from penstock.console.stack import page as stack_page
from penstock.engine.problem import Problem

OPEN = ("/login", "/static/", "/healthz")
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
            *events.ROUTES,
            Route("/live/numbers", live.numbers),
            Route("/healthz", healthy),
            Mount("/static", StaticFiles(directory=Path(__file__).with_name("static"))),
        ],
        middleware=[
            Middleware(ConsoleGuard, names=names),
            Middleware(SignedIn, console=console),
            Middleware(GZipMiddleware),
        ],
        exception_handlers={Problem: told, NotForYou: not_for_you, HTTPException: not_found},
    )
    app.state.console = console
    app.state.events = EventsRoom(console.settings, console.stopping)
    return app


async def healthy(request: Request) -> Response:
    """For whoever only wants to know whether it is there."""
    return JSONResponse({"status": "ok"})


async def not_for_you(request: Request, error: Exception) -> Response:
    """What only operators may see."""
    problem = Problem(
        "This page is for operators.", "Sign in with a token that may do everything with eventing.knative.dev."
    )
    return problem_page(request, 403, "Not for you", problem)


async def not_found(request: Request, error: Exception) -> Response:
    """A path that leads nowhere."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    what = "There is no such page." if status == 404 else f"The request was not understood (status {status})."
    return problem_page(request, status, "Nothing here", Problem(what))


class SignedIn:
    """Sends whoever is not known to the page that asks for a token."""

    def __init__(self, app: ASGIApp, console: Console) -> None:
        self._app, self._console = app, console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"].startswith(OPEN) or self._console.session(Request(scope)):
            await self._app(scope, receive, send)
            return
        wants_page = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
        answer: Response = JSONResponse({"problem": "Sign in first."}, 401)
        if wants_page and scope["method"] in ("GET", "HEAD"):
            answer = RedirectResponse(f"/login?to={quote(scope['path'])}", 303)
        await answer(scope, receive, send)
