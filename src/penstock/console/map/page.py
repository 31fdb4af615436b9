"""`/`: the map."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.console.console import console_of
from penstock.console.map.graph import Band, bands_of
from penstock.console.map.layout import HEIGHT, Drawing, drawing_of
from penstock.console.pages import fragment, render


def show(request: Request) -> Response:
    """The page."""
    return render(request, "map/map.html", title="Map", **_values(request))


def picture(request: Request) -> Response:
    """The picture alone, for the script that refreshes it."""
    return fragment("map/picture.html", **_values(request))


def _values(request: Request) -> dict[str, Any]:
    bands = narrowed(_bands(request), request.query_params.get("q", ""))
    drawing: Drawing = drawing_of(bands, request.query_params.getlist("open"))
    bad = sum(len(band.bad) for band in bands)
    return {
        "drawing": drawing,
        "height": HEIGHT,
        "bad": bad,
        "query": request.query_params.get("q", ""),
        "opened": request.query_params.getlist("open"),
        "frame": console_of(request).numbers.frame,
    }


def narrowed(bands: list[Band], query: str) -> list[Band]:
    """The result of a search: routes that contain every word, or whole bands by their names."""
    words = query.lower().split()
    if not words:
        return bands
    left = []
    for band in bands:
        if all(word in band.key.lower() for word in words):
            left.append(band)
            continue
        routes = tuple(one for one in band.routes if all(word in f"{band.key.lower()} {one.text}" for word in words))
        if routes:
            left.append(replace(band, routes=routes))
    return left


def _bands(request: Request) -> list[Band]:
    console = console_of(request)
    return bands_of(*console.objects.of(console.api(request)))


ROUTES = [Route("/", show), Route("/map/picture", picture)]
