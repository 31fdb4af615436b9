"""Fixtures of the control plane in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.controllers.routes import publisher as publisher_module
from penstock.kube import list_watch
from penstock.settings import Settings
from tests.unit.controllers.api_double import ApiDouble, TopicDouble
from tests.unit.controllers.memory_plane import ControlPlane, Starter


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, history=False)


@pytest.fixture
async def start(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Starter]:
    """Starts a control plane; one started after another takes up the same API and topic."""
    monkeypatch.setattr(publisher_module, "GATHER_SECONDS", 0.0)
    monkeypatch.setattr(list_watch, "LONGEST_PAUSE_SECONDS", 0.01)
    api, topic = ApiDouble(settings), TopicDouble()
    started: list[ControlPlane] = []

    async def run() -> ControlPlane:
        if started:
            await started[-1].stop()
        started.append(ControlPlane(api, topic, settings))
        return started[-1]

    yield run
    if started:
        await started[-1].stop()


@pytest.fixture
async def plane(start: Starter) -> ControlPlane:
    """A running control plane."""
    return await start()
