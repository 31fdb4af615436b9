"""By which authorities an EventTransform believes its sink, over real TLS."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from pyreqwest.client import ClientBuilder

from certificate_files import authority
from penstock.contract.names import Location
from penstock.tls.server import ServerTls
from penstock.workloads.actors.reporting import PodLog
from penstock.workloads.actors.transform import Transform
from penstock.workloads.trusting_client import TrustingClient
from tls_sink import served

OWN, OTHER = authority("own"), authority("other")
EXPRESSION = '{"specversion": "1.0", "id": id, "source": source, "type": "changed"}'
EVENT = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}'


def no_tls(service: str) -> ServerTls:
    raise AssertionError(f"nobody asked for a certificate of {service}")


async def test_trust_bundles_count_from_the_next_event_on(tmp_path: Path) -> None:
    bundles = ""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    trusting = TrustingClient(lambda: bundles, lambda: ClientBuilder().no_proxy())
    log = PodLog(tmp_path / "log")
    ready = asyncio.Event()
    with served(OWN) as sink:
        env = {"JSONATA_TRANSFORM": EXPRESSION, "K_SINK": sink.url}
        actor = Transform(env, log, trusting, Location, lambda _: listener, tls_of=no_tls)
        running = asyncio.create_task(actor.run(ready.set))
        async with ClientBuilder().no_proxy().build() as producer, asyncio.timeout(60):
            await ready.wait()

            async def status() -> int:
                sent = producer.post(url).header("content-type", "application/cloudevents+json").body_text(EVENT)
                return (await sent.build().send()).status

            assert await status() == 500
            bundles = OTHER.certificate.decode()
            assert await status() == 500
            bundles += OWN.certificate.decode()
            assert await status() == 202
            bundles = ""
            assert await status() == 500
        actor.stop(0)
        await running
        await trusting.close()
        log.close()
    assert len(sink.types) == 1
    refused = (tmp_path / "log").read_text().splitlines()
    assert len(refused) == 3
    assert all("ConnectError" in line for line in refused)


async def test_a_sink_of_the_cluster_is_believed_by_its_name(tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    trusting = TrustingClient(OWN.certificate.decode, lambda: ClientBuilder().no_proxy())
    log, ready, name = PodLog(tmp_path / "log"), asyncio.Event(), "sink.ns.svc.cluster.local"
    with served(OWN, name) as sink:

        def locate(asked: str) -> Location:
            assert asked == f"https://{name}"
            return Location(sink.url, name)

        env = {"JSONATA_TRANSFORM": EXPRESSION, "K_SINK": f"https://{name}"}
        actor = Transform(env, log, trusting, locate, lambda _: listener, tls_of=no_tls)
        running = asyncio.create_task(actor.run(ready.set))
        async with ClientBuilder().no_proxy().build() as producer, asyncio.timeout(60):
            await ready.wait()
            sent = producer.post(url).header("content-type", "application/cloudevents+json").body_text(EVENT)
            assert (await sent.build().send()).status == 202
        actor.stop(0)
        await running
        await trusting.close()
        log.close()
    assert len(sink.types) == 1
