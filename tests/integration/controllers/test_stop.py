"""Stopping in order, whatever is not there yet."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

import pytest

from penstock.controllers import service
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings


@pytest.mark.parametrize("has_kubeconfig", [False, True])
async def test_the_controllers_stop_while_they_wait_for_the_api_and_kafka(
    control_settings: Settings, tmp_path: Path, has_kubeconfig: bool
) -> None:
    if has_kubeconfig:
        shutil.copy(control_settings.data_dir / "kubeconfig-control", tmp_path / "kubeconfig-control")
    # Nothing listens at port 1, so the routes can never be read back.
    lifecycle, settings = Lifecycle(), Settings(data_dir=tmp_path, kafka="127.0.0.1:1")
    run = asyncio.create_task(service.run(settings, lifecycle))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(run), 0.5)
    assert not run.done()
    lifecycle.stopping.set()
    await asyncio.wait_for(run, 60)
    assert lifecycle.said == []
