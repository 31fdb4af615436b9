"""`transport-encryption`: the addresses of Brokers and Channels, and over what the ingress takes their events."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memory_plane import ControlPlane

from penstock.contract.routes import Target
from penstock.controllers.api import BROKER, CHANNEL, CONFIG_MAP, Kind, Obj
from penstock.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """With a data folder for an authority."""
    return Settings(data_dir=tmp_path)


def named(name: str, namespace: str = "ns", **body: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace}, **body}


def switch(plane: ControlPlane, value: str) -> None:
    data = {"transport-encryption": value}
    plane.api.apply(CONFIG_MAP, named("config-features", "knative-eventing", data=data))


def addresses(plane: ControlPlane, kind: Kind) -> list[tuple[str, str, bool]]:
    """The names, URLs, and whether there are certificates to trust; the one address stands last."""
    status = (plane.api.get(kind, "ns", "x") or {}).get("status") or {}
    told = [*(status.get("addresses") or []), status.get("address") or {}]
    return [(one.get("name", ""), one.get("url", ""), "BEGIN CERTIFICATE" in one.get("CACerts", "")) for one in told]


def transports(plane: ControlPlane) -> list[str]:
    return [record.transport for record in plane.records().values() if isinstance(record, Target)]


def tells(plane: ControlPlane, kind: Kind, expected: list[tuple[str, str, bool]], transport: str) -> bool:
    return addresses(plane, kind) == expected and transports(plane) == [transport]


@pytest.mark.parametrize(("kind", "path"), [(BROKER, "/ns/x"), (CHANNEL, "/channels/ns/x")])
async def test_addresses_follow_the_feature(plane: ControlPlane, kind: Kind, path: str) -> None:
    plain = ("http", f"http://127.0.0.1:8080{path}", False)
    secure = ("https", f"https://127.0.0.1:8444{path}", True)
    plane.api.apply(kind, named("x", spec={}))
    await plane.until(lambda: addresses(plane, kind) == [plain, plain])
    for value, expected in (
        ("Strict", [secure, secure]),
        ("permissive", [secure, plain, plain]),
        ("disabled", [plain, plain]),
    ):
        switch(plane, value)
        await plane.until(partial(tells, plane, kind, expected, value.lower()))
