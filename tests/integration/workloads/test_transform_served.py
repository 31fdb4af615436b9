"""Over what the Pod of an EventTransform answers, for each `transport-encryption`: as its Deployment tells it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import multiprocessing
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from penstock.contract.names import Location
from penstock.destinations import Destinations
from penstock.resources.eventtransform import EventTransform
from penstock.resources.features import Transport
from penstock.settings import Settings
from penstock.web import own_authority
from penstock.web.tls_server import FOLDER, InMemoryCertificate
from penstock.workloads.images import Actor, Exit, Images
from penstock.workloads.pods.actor_process import ActorServices
from penstock.workloads.pods.addresses import PodAddress, claim
from penstock.workloads.pods.preparation import Node, Preparation
from penstock.workloads.processes.node_context import NodeContext
from tests.waiting import eventually

EXPRESSION = '{"specversion": "1.0", "id": id, "source": source, "type": "changed"}'
EVENT = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}'
WANTED = EventTransform.read(
    {
        "apiVersion": "eventing.knative.dev/v1alpha1",
        "kind": "EventTransform",
        "metadata": {"name": "t", "namespace": "ns", "uid": "u"},
        "spec": {"jsonata": {"expression": EXPRESSION}},
    }
)


@dataclass(frozen=True)
class Pod:
    """A Pod of the EventTransform, and by whom its clients believe it."""

    preparation: Preparation
    address: PodAddress
    authority: str

    def post(self, port: int, host: str | None) -> str:
        """The type of the event that it answers with; over TLS where the server is asked for by name."""
        port = self.preparation.moved_ports.get(port, port)
        plain: socket.socket = socket.create_connection((self.address.ip, port), 30)
        trusting = ssl.create_default_context(cadata=self.authority)
        connection = http.client.HTTPConnection(self.address.ip, port, timeout=30)
        with contextlib.closing(connection):
            connection.sock = trusting.wrap_socket(plain, server_hostname=host) if host else plain
            connection.request("POST", "/", EVENT, {"content-type": "application/cloudevents+json"})
            return str(json.loads(connection.getresponse().read())["type"])


def pod_in(folder: Path, address: PodAddress) -> Pod:
    settings = Settings(data_dir=folder)

    def certificate(hosts: Sequence[str]) -> InMemoryCertificate:
        return InMemoryCertificate(settings, "pod", hosts)

    nothing = cast(Any, None)
    services = ActorServices(nothing, Location, Destinations(settings), str, certificate, settings.max_event_bytes)
    node = Node(nothing, nothing, services, folder, Images({}), NodeContext(folder))
    pod = {"metadata": {"name": "t-1", "namespace": "ns", "uid": "u"}, "spec": {}}
    return Pod(Preparation(pod, node, folder, address), address, authority_of(folder))


def authority_of(folder: Path) -> str:
    return own_authority.authority_certificate(folder / FOLDER, datetime.now(UTC)).decode()


def container(transport: Transport, **env: str) -> dict[str, Any]:
    [described] = WANTED.deployment(None, transport)["spec"]["template"]["spec"]["containers"]
    return {**described, "env": [*described["env"], *({"name": name, "value": env[name]} for name in env)]}


@contextlib.asynccontextmanager
async def running(folder: Path, transport: Transport) -> AsyncIterator[Pod]:
    with contextlib.closing(claim(str(folder))) as address:
        pod, ready = pod_in(folder, address), asyncio.Event()
        run = await pod.preparation.run(container(transport), Actor("transform-jsonata"))
        task = asyncio.create_task(run.run(ready.set))
        try:
            async with asyncio.timeout(120):
                await ready.wait()
                yield pod
        finally:
            run.stop(30)
            assert await task == Exit(0)


@pytest.mark.parametrize(
    ("transport", "plain", "secure"), [("disabled", True, False), ("permissive", True, True), ("strict", False, True)]
)
async def test_events_are_transformed_over_what_is_asked_for(
    tmp_path: Path, transport: Transport, plain: bool, secure: bool
) -> None:
    async with running(tmp_path, transport) as pod:
        for port, host, answers in ((8080, None, plain), (8443, WANTED.host, secure)):
            if answers:
                assert await asyncio.to_thread(pod.post, port, host) == "changed"
            else:
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.to_thread(pod.post, port, host)


async def test_another_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path, "strict") as pod:
        (tmp_path / FOLDER / "ca.crt").unlink()
        async with asyncio.timeout(120):
            while True:
                try:
                    believing = replace(pod, authority=authority_of(tmp_path))
                    assert await asyncio.to_thread(believing.post, 8443, WANTED.host) == "changed"
                    break
                except ssl.SSLCertVerificationError:
                    await asyncio.sleep(0.1)
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(pod.post, 8443, WANTED.host)


async def test_its_certificate_is_for_its_service_alone(tmp_path: Path) -> None:
    async with running(tmp_path, "strict") as pod:
        assert await asyncio.to_thread(pod.post, 8443, "t-jsonata.ns.svc") == "changed"
        for other in ("other-jsonata.ns.svc.cluster.local", "t-jsonata.ns"):
            with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
                await asyncio.to_thread(pod.post, 8443, other)


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"DISABLE_HTTP_SERVER": "true"}, "DISABLE_HTTP_SERVER leaves nothing to serve where HTTPS_SERVICE does not"),
        ({"HTTPS_SERVICE": "job-sink.knative-eventing"}, '"job-sink.knative-eventing" is not the name of a Service'),
    ],
)
async def test_an_environment_that_cannot_be_is_told(tmp_path: Path, env: dict[str, str], told: str) -> None:
    pod = pod_in(tmp_path, PodAddress("127.0.0.1"))
    run = await pod.preparation.run(container("disabled", **env), Actor("transform-jsonata"))
    ended = await run.run(lambda: None)
    assert (ended.code, told in ended.message) == (1, True), ended.message
    assert told in (tmp_path / "jsonata-event-transform.log").read_text()


async def test_a_port_that_is_taken_and_a_certificate_that_cannot_be_made_are_told(tmp_path: Path) -> None:
    async with running(tmp_path, "strict") as pod:
        run = await pod.preparation.run(container("strict"), Actor("transform-jsonata"))
        assert await run.run(lambda: None) == Exit(
            1, "listen tcp :8443: the port is in use, such as by another container of the Pod"
        )
        (tmp_path / FOLDER / "ca.key").write_bytes(b"not a key")
        run = await pod.preparation.run(container("strict"), Actor("transform-jsonata"))
        ended = await run.run(lambda: None)
        assert (ended.code, "ca.key is not the key that penstock made" in ended.message) == (1, True), ended.message


def node_with_a_transformation(folder: Path) -> None:
    """A process of its own, until it is killed."""

    async def main() -> None:
        async with running(folder, "disabled"):
            (folder / "ready").touch()
            await asyncio.Event().wait()

    asyncio.run(main())


def test_a_program_and_what_it_started_end_with_a_node_that_is_killed(tmp_path: Path) -> None:
    node = multiprocessing.get_context("spawn").Process(target=node_with_a_transformation, args=(tmp_path,))
    node.start()
    eventually((tmp_path / "ready").exists, 60)
    programs = psutil.Process(node.pid).children(recursive=True)
    names = [" ".join(one.cmdline()) for one in programs]
    node.kill()
    node.join()
    assert [any(module in name for name in names) for module in ("workloads.actors", "jsonata_worker")] == [True, True]
    eventually(lambda: not any(is_alive(one) for one in programs), 60)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
