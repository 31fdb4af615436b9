"""An ingress that breaks inside ends, so that it is started again, instead of serving by old targets for ever."""

from __future__ import annotations

import asyncio

import pytest

from penstock.ingress import service
from penstock.ingress.storage_checks import DiskWatch
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings


def broken(*_: object) -> None:
    raise ZeroDivisionError("on purpose")


async def broken_later(_: DiskWatch) -> None:
    await asyncio.sleep(0)
    broken()


@pytest.fixture
def quick(ingress_kafka: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(service, "settle_garbage", lambda: None)
    return ingress_kafka.model_copy(update={"port": 0, "drain_seconds": 0.1})


async def test_a_snapshot_that_cannot_be_applied_ends_the_ingress(
    quick: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "TargetTable", broken)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(service.run(quick, Lifecycle()), 60)


async def test_a_task_that_ends_by_an_exception_ends_the_ingress(
    quick: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DiskWatch, "run", broken_later)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(service.run(quick, Lifecycle()), 60)
