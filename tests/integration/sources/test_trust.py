"""By which authorities a source believes its sink, and as whom it sends, over real TLS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.contract.names import Location
from penstock.events.event import CloudEvent
from penstock.resources.destinations import ResolvedAddress
from penstock.sources.deliveries import NotAccepted, Sinks
from tests.certificate_files import authority
from tests.tls_sink import TlsSink, served

OWN, OTHER = authority("own"), authority("other")
OWN_PEM, OTHER_PEM = OWN.certificate.decode(), OTHER.certificate.decode()
EVENT = CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"x")


@pytest.fixture
def served_sink() -> Iterator[TlsSink]:
    with served(OWN) as one:
        yield one


@pytest.fixture
def sink(served_sink: TlsSink) -> str:
    return served_sink.url


async def test_certificates_of_the_sink_and_of_trust_bundles_count_together(sink: str) -> None:
    bundles = OTHER_PEM
    async with Sinks(Location, trusted=lambda: bundles) as sinks:
        with pytest.raises(NotAccepted, match="certificate"):
            await sinks.send(ResolvedAddress(sink), EVENT, "ns")
        await sinks.send(ResolvedAddress(sink, OTHER_PEM + OWN_PEM), EVENT, "ns")
        bundles = OTHER_PEM + OWN_PEM
        await sinks.send(ResolvedAddress(sink), EVENT, "ns")
        bundles = ""
        with pytest.raises(NotAccepted, match="certificate"):
            await sinks.send(ResolvedAddress(sink), EVENT, "ns")


async def test_a_sink_with_an_audience_is_shown_a_token_for_it(served_sink: TlsSink) -> None:
    async def token(namespace: str, account: str, audience: str) -> str:
        return f"{namespace}.{account}.{audience}"

    async with Sinks(Location, token) as sinks:
        await sinks.send(ResolvedAddress(served_sink.url, OWN_PEM, audience="shop", account="ticks"), EVENT, "ns")
        await sinks.send(ResolvedAddress(served_sink.url, OWN_PEM, account="ticks"), EVENT, "ns")
    assert served_sink.tokens == ["Bearer ns.ticks.shop", None]
