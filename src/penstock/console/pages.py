"""Renders pages from templates, with the navigation, and renders errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from penstock.console.console import console_of
from penstock.operations.cluster_api import NotAllowed, NotReached, NotThere, UnknownToken
from penstock.operations.formatting import count, duration
from penstock.runtime.errors import UserError


@dataclass(frozen=True)
class Section:
    """An entry of the navigation."""

    path: str
    title: str
    key: str
    """Pressed after `g`, it opens the page."""
    for_operators: bool = False
    """Whether only operators see it."""


SECTIONS = (
    Section("/", "Map", "m"),
    Section("/routes", "Routes", "r"),
    Section("/events", "Events", "e", for_operators=True),
    Section("/deadletters", "Dead letters", "d", for_operators=True),
    Section("/playground", "Playground", "p", for_operators=True),
    Section("/stack", "Stack", "s", for_operators=True),
)


@cache
def environment() -> Environment:
    """The templates of the console. Values are escaped, and an undefined name is an error."""
    found = Environment(
        loader=ChoiceLoader([PackageLoader("penstock.console", "templates")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"count": count, "duration": duration, "rate": rate, "ms": milliseconds}
    found.filters |= {"path": path_part, "clip": clip}
    return found


def rate(number: float) -> str:
    """Something per second."""
    return count(number) if number >= 10 else f"{number:.1f}"


def milliseconds(seconds: float | None) -> str:
    """A latency; empty where there is none."""
    if seconds is None:
        return ""
    return f"{seconds * 1000:.0f}" if seconds >= 0.01 else f"{seconds * 1000:.1f}"


def clip(text: str, letters: int) -> str:
    """What fits: the middle of a long text is left out, since names differ at both ends."""
    if len(text) <= letters:
        return text
    tail = letters // 3
    return f"{text[: letters - tail - 1]}…{text[-tail:]}"


def path_part(text: str) -> str:
    """A name as a part of a path."""
    return quote(text, safe="")


def render(request: Request, template: str, status: int = 200, /, **values: Any) -> HTMLResponse:
    """A page of a template that extends `base.html`."""
    console = console_of(request)
    session = console.session(request)
    sections = [
        section
        for section in SECTIONS
        if session is not None and (session.owner.is_operator or not section.for_operators)
    ]
    page = (
        environment()
        .get_template(template)
        .render(
            **values,
            request_path=request.scope["path"],
            sections=sections,
            session=session,
        )
    )
    return HTMLResponse(page, status)


def fragment(template: str, /, **values: Any) -> HTMLResponse:
    """A fragment of a page, which a script inserts."""
    return HTMLResponse(environment().get_template(template).render(**values))


async def form(request: Request) -> dict[str, str]:
    """The fields of a form; of a repeated one, the last."""
    return dict(await form_fields(request))


async def form_fields(request: Request) -> list[tuple[str, str]]:
    """The fields of a form, repeated ones too."""
    try:
        body = await request.body()
    except ClientDisconnect:
        raise UserError("The form is too large or incomplete.") from None
    return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)


def back(path: str) -> RedirectResponse:
    """After a change: the page that shows it, so that reloading does not repeat the change."""
    return RedirectResponse(path, 303)


async def problem_response(request: Request, error: Exception) -> Response:
    """A UserError as a page, or as text for a script."""
    if not isinstance(error, UserError):
        raise error
    status = status_of(error, request.method)
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"problem": error.what, "remedy": error.remedy}, status)
    return problem_page(request, status, "Not done", error)


def problem_page(request: Request, status: int, title: str, problem: UserError) -> HTMLResponse:
    """A page that says what went wrong, and leads back."""
    return render(request, "problem.html", status, title=title, problem=problem, before=page_before(request))


def page_before(request: Request) -> str:
    """The page of the console that led to this request, as the browser names it; empty where it names none."""
    named = urlsplit(request.headers.get("referer", ""))
    if named.netloc != request.url.netloc or not named.path.startswith("/") or named.path.startswith("//"):
        return ""
    path = f"{named.path}?{named.query}" if named.query else named.path
    return "" if path == request.url.path else path


def status_of(problem: UserError, method: str) -> int:
    """The HTTP status of a UserError."""
    for kind, status in ((NotThere, 404), (NotReached, 502), (UnknownToken, 401), (NotAllowed, 403)):
        if isinstance(problem, kind):
            return status
    return 400 if method in ("GET", "HEAD") else 409
