"""The page that asks for a token, and the end of a session."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.console.console import console_of
from penstock.console.pages import back, form, render
from penstock.engine.problem import Problem


async def ask(request: Request) -> Response:
    """The form."""
    console = console_of(request)
    if console.session(request) is not None:
        return back("/")
    return render(request, "login.html", title="Sign in", wrong=None, after=local_path(request.query_params.get("to")))


async def check(request: Request) -> Response:
    """Has the API say whose token it is."""
    console, given = console_of(request), await form(request)
    token, after = given.get("token", "").strip(), local_path(given.get("to"))
    try:
        if not token:
            raise Problem("Paste a token.")
        if not token.isascii() or any(letter.isspace() for letter in token):
            raise Problem("A token is one word of letters, digits and signs.")
        user, is_operator = await asyncio.to_thread(console.who, token)
    except Problem as problem:
        return render(request, "login.html", 401, title="Sign in", wrong=str(problem), after=after)
    response = back(after)
    console.sessions.begin(request, response, user, token, is_operator=is_operator)
    return response


async def leave(request: Request) -> Response:
    """Forgets the token."""
    response = back("/login")
    console_of(request).sessions.end(request, response)
    return response


def local_path(text: str | None) -> str:
    """Where to go after signing in: a page of this console, and nowhere else."""
    usable = text and text.startswith("/") and not text.startswith("//") and "\\" not in text
    return text if usable and text else "/"


ROUTES = [
    Route("/login", ask, methods=["GET"]),
    Route("/login", check, methods=["POST"]),
    Route("/logout", leave, methods=["POST"]),
]
