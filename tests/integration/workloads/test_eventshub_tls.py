"""The actor `eventshub` over real TLS: one receives, another sends to it by the name of its Service, with a token."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.contract.names import Target
from penstock.web.certificates import KeyPair, issue_certificate
from penstock.workloads.actors.http_actor import PORT, TLS_PORT
from penstock.workloads.actors.node_line import NodeLine, Reach
from penstock.workloads.actors.options import CERTIFICATES, TOKEN, read_options
from penstock.workloads.actors.program import ActorEnvironment, EventsHub
from penstock.workloads.actors.reporting import PodLog, Reports
from penstock.workloads.actors.volume_files import VolumeFiles
from penstock.workloads.images import Exit
from tests.certificate_files import DAY, authority

OWN, OTHER = authority("own"), authority("other")
NAME = "sink.ns.svc.cluster.local"
EVENT = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}'
COMMON = {"SYSTEM_NAMESPACE": "ns", "EVENT_LOGS": "recorder"}


class Hub:
    """One container, and what it reported."""

    def __init__(self, folder: Path, ports: dict[int, socket.socket], reached: int, **env: str) -> None:
        self.infos: list[dict[str, Any]] = []
        options = read_options("eventshub", COMMON | env)
        self._reach = Reach([Target(f"https://{NAME}:{reached}/", NAME, (NAME, "127.0.0.1", reached))])
        reports = Reports(options.common, PodLog(io.StringIO()), self._record)
        files = VolumeFiles([("/files", str(folder.resolve()))])
        around = ActorEnvironment(cast(NodeLine, self), files, 1024, reports, ports.get)
        self.program = EventsHub(options, around)

    async def _record(self, component: str, name: str, message: str) -> None:
        self.infos.append(json.loads(message))

    async def ask(self, name: str, kind: Any, /, **arguments: str) -> Any:
        if name == "locate":
            return self._reach
        return {"username": arguments["token"]} if arguments["audience"] == "sink-audience" else None

    async def run(self) -> Exit:
        return await self.program.run(lambda: None)


def certificates(folder: Path, pair: KeyPair) -> str:
    folder.mkdir()
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    return f"/files/{folder.name}"


@contextlib.asynccontextmanager
async def receiving(tmp_path: Path) -> AsyncIterator[tuple[Hub, int]]:
    """A receiver, and its port for TLS."""
    ports = {port: socket.create_server(("127.0.0.1", 0)) for port in (PORT, TLS_PORT)}
    folder = certificates(tmp_path / "certificates", issue_certificate(OWN, "sink", [NAME], DAY, datetime.now(UTC)))
    env = {"ENFORCE_TLS": "true", "OIDC_AUDIENCE": "sink-audience", CERTIFICATES: folder}
    hub = Hub(tmp_path, ports, 0, POD_NAME="sink", EVENT_GENERATORS="receiver", **env)
    running = asyncio.create_task(hub.run())
    try:
        yield hub, ports[TLS_PORT].getsockname()[1]
    finally:
        hub.program.stop(0)
        assert await running == Exit(0)


def sender(tmp_path: Path, reached: int, **env: str) -> Hub:
    token = tmp_path / "token"
    token.write_text("my-token\n")
    sends = {"SINK": f"https://{NAME}", "INPUT_EVENT": EVENT, "DELAY": "0", "PROBE_SINK_TIMEOUT": "60"}
    return Hub(
        tmp_path,
        {},
        reached,
        POD_NAME="source",
        EVENT_GENERATORS="sender",
        ENABLE_OIDC_AUTH="true",
        **({TOKEN: "/files/token"} | sends | env),
    )


async def test_an_event_with_a_token_is_taken_over_tls(tmp_path: Path) -> None:
    async with asyncio.timeout(120), receiving(tmp_path) as (sink, port):
        source = sender(tmp_path, port, CA_CERTS=OWN.certificate.decode())
        assert await source.run() == Exit(0)
        sent, answered = source.infos
        assert (answered["statusCode"], "error" in sent) == (202, False)
        assert "my-token" not in json.dumps(sent)
        assert [(info["kind"], info["oidcUserInfo"]) for info in sink.infos] == [("Received", {"username": "my-token"})]


async def test_a_sink_of_another_authority_is_not_believed(tmp_path: Path) -> None:
    async with asyncio.timeout(120), receiving(tmp_path) as (sink, port):
        ended = await sender(tmp_path, port, CA_CERTS=OTHER.certificate.decode(), PROBE_SINK_TIMEOUT="1").run()
        assert (ended.code, "did not respond" in ended.message) == (1, True)
        assert sink.infos == []


@pytest.mark.parametrize(
    ("role", "env", "told"),
    [
        ("receiver", {"ENFORCE_TLS": "true", CERTIFICATES: "/nowhere"}, "error while starting the HTTPS server"),
        ("sender", {"ENABLE_OIDC_AUTH": "true", TOKEN: "/nowhere/token"}, "could not read token from file"),
    ],
)
async def test_a_missing_file_is_told(tmp_path: Path, role: str, env: dict[str, str], told: str) -> None:
    sends = {"SINK": f"https://{NAME}", "INPUT_EVENT": EVENT, "DELAY": "0"}
    ended = await Hub(tmp_path, {}, 0, POD_NAME="hub", EVENT_GENERATORS=role, **(sends | env)).run()
    assert (ended.code, told in ended.message) == (1, True)
