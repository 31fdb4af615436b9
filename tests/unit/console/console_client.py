"""A browser that looks at a console without a stack."""

from __future__ import annotations

from collections.abc import Callable

from starlette.testclient import TestClient

ORIGIN = "http://127.0.0.1:8081"
BROWSER = {"accept": "text/html", "origin": ORIGIN, "sec-fetch-site": "same-origin"}

MakeClient = Callable[..., TestClient]
