"""`transport-encryption`: the addresses of Brokers, Channels and EventTransforms, and over what they take events."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.routes import Target
from penstock.kube.kinds import BROKER, CHANNEL, EVENT_TRANSFORM, SERVICE, Kind, Obj
from penstock.settings import Settings
from tests.unit.controllers.memory_plane import ControlPlane


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """With a data folder for an authority."""
    return Settings(data_dir=tmp_path)


def named(name: str, **body: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": "ns"}, **body}


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
        plane.switch(transport_encryption=value)
        await plane.until(partial(tells, plane, kind, expected, value.lower()))


async def test_an_event_transform_has_addresses_once_it_is_served_there(plane: ControlPlane) -> None:
    plain = ("http", "http://x-jsonata.ns.svc.cluster.local", False)
    secure = ("https", "https://x-jsonata.ns.svc.cluster.local", True)
    nothing = ("", "", False)
    plane.api.apply(EVENT_TRANSFORM, named("x", spec={"jsonata": {"expression": "$"}}))
    for value, expected, ports in (
        ("disabled", [plain, plain], {80: 8080}),
        ("permissive", [secure, plain, secure], {443: 8443, 80: 8080}),
        ("strict", [secure, secure], {443: 8443}),
        ("disabled", [plain, plain], {80: 8080}),
    ):
        plane.switch(transport_encryption=value)
        await plane.until(partial(leads_to, plane, ports))
        await plane.until(lambda: addresses(plane, EVENT_TRANSFORM) == [nothing])
        await plane.run_pod(partial(listens_at, list(ports.values())))
        await plane.until(partial(told, plane, EVENT_TRANSFORM, expected))
    assert transports(plane) == [], "the ingress has no part in it"


def told(plane: ControlPlane, kind: Kind, expected: list[tuple[str, str, bool]]) -> bool:
    return addresses(plane, kind) == expected


def leads_to(plane: ControlPlane, ports: dict[int, int]) -> bool:
    service = plane.api.get(SERVICE, "ns", "x-jsonata") or {"spec": {"ports": []}}
    return {port["port"]: port["targetPort"] for port in service["spec"]["ports"]} == ports


def listens_at(ports: list[int], pod: Obj) -> bool:
    return [port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]] == ports
