"""The console without a stack: its application, asked as a browser would, over an API that is a list of objects."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.console.app import application
from penstock.console.console import Console
from penstock.settings import Settings
from tests.unit.console.console_client import BROWSER, OPERATOR, ORIGIN, MakeClient, know_tokens, signed_in
from tests.unit.console.known_api import KnownApi


@pytest.fixture
def client_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeClient:
    """Makes a console with an API and settings, and a browser that has signed in to it with a token."""
    know_tokens(monkeypatch)

    def make(api: KnownApi | None = None, token: str | None = OPERATOR, **settings: Any) -> TestClient:
        console = Console(Settings(data_dir=tmp_path, metrics=False, **settings), asyncio.Event())
        monkeypatch.setattr(Console, "api_of", lambda self, token: api or KnownApi())
        client = TestClient(application(console), base_url=ORIGIN, headers=BROWSER, follow_redirects=False)
        return signed_in(client, token)

    return make
