"""One event to one sink: what is asked for may be impossible, and only its own source hears of it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from penstock.contract.names import Location, NothingThere
from penstock.destinations import Destinations
from penstock.events.event import CloudEvent
from penstock.resources.destinations import ResolvedAddress
from penstock.settings import Settings
from penstock.sources.deliveries import NotAccepted, Sinks
from tests.certificate_files import authority
from tests.tls_sink import served

EVENT = CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"x")


@pytest.mark.parametrize(
    ("sink", "event"),
    [
        (ResolvedAddress("http://no such host/"), EVENT),
        (ResolvedAddress("ftp://127.0.0.1/"), EVENT),
        (ResolvedAddress("https://127.0.0.1:1/", "no certificate"), EVENT),
        (ResolvedAddress("http://127.0.0.1:1/"), EVENT.with_attributes(datacontenttype="text/plain\nx-other: 1")),
        (ResolvedAddress("http://127.0.0.1:1/"), EVENT.with_attributes(**{"no name": "x"})),
    ],
)
async def test_what_cannot_be_sent_is_not_accepted(sink: ResolvedAddress, event: CloudEvent) -> None:
    async with Sinks(Location) as sinks:
        with pytest.raises(NotAccepted):
            await sinks.send(sink, event, "ns")


async def test_a_name_with_nothing_behind_it_is_told() -> None:
    def locate(url: str) -> Location:
        raise NothingThere("sink.ns:80 has no ready address behind it")

    async with Sinks(locate) as sinks:
        with pytest.raises(NotAccepted, match="no ready address"):
            await sinks.send(ResolvedAddress("http://sink.ns"), EVENT, "ns")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://169.254.169.254/latest", "169.254.169.254 is refused as a destination: link-local"),
        ("http://[fe80::1]/", "fe80::1 is refused"),
        ("http://localhost:1/", "127.0.0.0/8 is in deliver_deny|::1/128 is in deliver_deny"),
    ],
)
async def test_sinks_are_judged_like_other_destinations(url: str, told: str) -> None:
    settings = Settings.model_validate({"deliver_deny": ["127.0.0.0/8", "::1/128"]})
    async with Sinks(Location, destinations=Destinations(settings)) as sinks:
        with pytest.raises(NotAccepted, match=told):
            await sinks.send(ResolvedAddress(url), EVENT, "ns")


async def test_a_name_is_connected_to_at_an_address_that_was_judged() -> None:
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Sinks(Location, destinations=Destinations(Settings())) as sinks:
        await sinks.send(ResolvedAddress(f"http://localhost:{port}/in"), EVENT, "ns")
    assert heard[0].startswith(b"POST /in HTTP/1.1")
    assert f"host: localhost:{port}".encode() in heard[0].lower()


@pytest.mark.parametrize("destinations", [None, Destinations(Settings())])
async def test_a_service_over_tls_is_believed_by_its_name(destinations: Destinations | None) -> None:
    signer, name = authority("own"), "sink.ns.svc.cluster.local"
    with served(signer, name) as sink:

        def locate(url: str) -> Location:
            return Location(sink.url, name if url == f"https://{name}/" else "other.ns.svc.cluster.local")

        async with Sinks(locate, destinations=destinations) as sinks:
            await sinks.send(ResolvedAddress(f"https://{name}/", signer.certificate.decode()), EVENT, "ns")
            with pytest.raises(NotAccepted, match=r"other\.ns\.svc\.cluster\.local"):
                await sinks.send(ResolvedAddress("https://other/", signer.certificate.decode()), EVENT, "ns")
    assert sink.types == ["t"]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 500 Error\r\ncontent-length: 0\r\n\r\n", b"nothing of HTTP\r\n\r\n"])
async def test_the_password_of_a_sink_is_not_told(answer: bytes) -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Sinks(Location) as sinks:
        with pytest.raises(NotAccepted) as refused:
            await sinks.send(ResolvedAddress(f"http://user:p4ss@127.0.0.1:{port}/in"), EVENT, "ns")
    assert b"authorization: basic dXNlcjpwNHNz" in heads[0].replace(b"Basic", b"basic").replace(b"Auth", b"auth")
    assert "p4ss" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254\\@127.0.0.1:1/", "http://%31%36%39.254.169.254/", "http://2852039166/"]
)
async def test_a_url_that_clients_read_differently_is_refused(url: str) -> None:
    async with Sinks(Location, destinations=Destinations(Settings())) as sinks:
        with pytest.raises(NotAccepted, match="invalid HTTP URL"):
            await sinks.send(ResolvedAddress(url), EVENT, "ns")


async def test_of_a_refusal_only_the_beginning_is_read() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"accept-encoding" not in head.lower()
        with contextlib.suppress(ConnectionError):
            writer.write(b"HTTP/1.1 500 Error\r\nconnection: close\r\n\r\n")
            while True:  # until the client has enough
                writer.write(b"x" * 65536)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with asyncio.timeout(60), server, Sinks(Location) as sinks:
        with pytest.raises(NotAccepted) as refused:
            await sinks.send(ResolvedAddress(f"http://127.0.0.1:{port}/"), EVENT, "ns")
    assert (str(refused.value), refused.value.status) == (f"http://127.0.0.1:{port}/ returned 500: {'x' * 200}", 500)
