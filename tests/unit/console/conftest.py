"""The console without a stack: its application, asked as a browser would, over an API that is a list of objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from known_api import KnownApi
from starlette.testclient import TestClient

from penstock.console.app import application
from penstock.console.console import Console
from penstock.settings import Settings

ORIGIN = "http://127.0.0.1:8081"
BROWSER = {"accept": "text/html", "origin": ORIGIN, "sec-fetch-site": "same-origin"}

MakeClient = Callable[..., TestClient]


@pytest.fixture
def client_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeClient:
    """Makes a console with an API and settings, and a browser that looks at it."""

    def make(api: KnownApi | None = None, **settings: object) -> TestClient:
        console = Console(Settings(data_dir=tmp_path, metrics=False, **settings), asyncio.Event())
        monkeypatch.setattr(Console, "api_of", lambda self, token: api or KnownApi())
        return TestClient(application(console), base_url=ORIGIN, headers=BROWSER, follow_redirects=False)

    return make
