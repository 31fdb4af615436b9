"""Signing in, with a pasted token or with a link of `penstock open`, and signing out.

Opening a link only shows a form, so that programs which fetch links for previews do not use it up. A script submits the
form at once, unless a page of another site led to the link of a user who is not an operator: then the user has to
confirm, because the site might want to sign the browser in as another user (login CSRF).
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.console.console import console_of
from penstock.console.pages import back, form, render
from penstock.console.sessions import LONGEST_LINK_SECONDS
from penstock.engine import datadir
from penstock.runtime.errors import UserError
from penstock.runtime.sockets import account_of

LINKS = "/login/links"
USED = "This link has already been used or has expired."
ANOTHERS = "This link belongs to another account of this machine."


async def ask(request: Request) -> Response:
    """The sign-in form."""
    after = request.query_params.get("to")
    return _form(request, 200, None, after) if console_of(request).session(request) is None else back(local_path(after))


async def check(request: Request) -> Response:
    """Verifies the token with the API and begins a session."""
    console, given = console_of(request), await form(request)
    try:
        token = checked_token(given.get("token", "").strip())
        owner = await asyncio.to_thread(console.owner_of, token)
    except UserError as problem:
        return _form(request, 401, str(problem), given.get("to"))
    response = back(local_path(given.get("to")))
    console.sessions.begin(request, response, token, owner)
    return response


async def make_link(request: Request) -> Response:
    """A link that signs in the owner of the token in `Authorization`, once, within `seconds`."""
    console, given = console_of(request), await form(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return JSONResponse({"problem": "A token is required: Authorization: Bearer TOKEN."}, 401)
    wanted = given.get("seconds", "")
    if not wanted.isdecimal() or len(wanted) > 4 or not 0 < int(wanted) <= LONGEST_LINK_SECONDS:
        raise UserError(f"Invalid seconds: expected a number from 1 to {LONGEST_LINK_SECONDS}.")
    owner = await asyncio.to_thread(console.owner_of, checked_token(token.strip()))
    code = console.links.make(token.strip(), owner, await asyncio.to_thread(_account, request), int(wanted))
    return JSONResponse({"path": f"{LINKS}/{code}"}, 201)


async def show_link(request: Request) -> Response:
    """The page of a link, with the form that signs in."""
    link = console_of(request).links.find(request.path_params["code"])
    after = request.query_params.get("to")
    if link is None:
        return _used(request, after)
    own = request.headers.get("sec-fetch-site") in ("none", "same-origin")
    response = render(
        request,
        "login_link.html",
        title="Sign in",
        user=link.owner.user,
        at_once=own or link.owner.is_operator,
        after=local_path(after),
    )
    # The Referer header must not contain the code; `no-referrer` would make the form's Origin null.
    response.headers["Referrer-Policy"] = "strict-origin"
    return response


async def follow_link(request: Request) -> Response:
    """Signs in with a link; works once."""
    console, given = console_of(request), await form(request)
    link = console.links.find(request.path_params["code"])
    if link is not None and not link.is_for(await asyncio.to_thread(_account, request)):
        return _form(request, 403, ANOTHERS, given.get("to"))
    link = console.links.take(request.path_params["code"])
    if link is None:
        return _used(request, given.get("to"))
    try:
        owner = await asyncio.to_thread(console.owner_of, link.token)
    except UserError as problem:
        return _form(request, 401, str(problem), given.get("to"))
    response = back(local_path(given.get("to")))
    response.headers["Referrer-Policy"] = "no-referrer"
    console.sessions.begin(request, response, link.token, owner)
    return response


async def leave(request: Request) -> Response:
    """Ends the session."""
    response = back("/login")
    console_of(request).sessions.end(request, response)
    return response


def checked_token(text: str) -> str:
    """The token, if it is valid. Raises UserError."""
    if not text:
        raise UserError("Paste a token.")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise UserError("Invalid token: a token is one word of printable ASCII characters.")
    return text


def local_path(text: str | None) -> str:
    """Where to go after signing in: only a page of this console."""
    usable = text and text.startswith("/") and not text.startswith("//") and "\\" not in text
    return text if usable and text else "/"


def _account(request: Request) -> int | None:
    """The account of the process that sent the request, if it is on this machine. Blocks."""
    client, server = request.client, request.scope.get("server")
    return account_of((client.host, client.port), server) if client is not None and server is not None else None


def _used(request: Request, after: str | None) -> Response:
    """The response to a used or expired link; a browser that is already signed in is redirected."""
    return back(local_path(after)) if console_of(request).session(request) else _form(request, 410, USED, after)


def _form(request: Request, status: int, wrong: str | None, after: str | None) -> Response:
    is_of_stack = datadir.read_stack(console_of(request).settings.data_dir) is not None
    values = {"wrong": wrong, "after": local_path(after), "by_command": is_of_stack}
    return render(request, "login.html", status, title="Sign in", **values)


ROUTES = [
    Route("/login", ask, methods=["GET"]),
    Route("/login", check, methods=["POST"]),
    Route(LINKS, make_link, methods=["POST"]),
    Route(f"{LINKS}/{{code}}", show_link, methods=["GET"]),
    Route(f"{LINKS}/{{code}}", follow_link, methods=["POST"]),
    Route("/logout", leave, methods=["POST"]),
]
