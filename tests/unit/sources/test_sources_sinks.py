"""One event to one sink: what is asked for may be impossible, and only its own source hears of it."""

from __future__ import annotations

import pytest

from penstock.contract.names import Location, NothingThere
from penstock.events.event import CloudEvent
from penstock.resources.resolution import Address
from penstock.sources.sinks import NotAccepted, Sinks

EVENT = CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"x")


@pytest.mark.parametrize(
    ("sink", "event"),
    [
        (Address("http://no such host/"), EVENT),
        (Address("ftp://127.0.0.1/"), EVENT),
        (Address("https://127.0.0.1:1/", "no certificate"), EVENT),
        (Address("http://127.0.0.1:1/"), EVENT.with_attributes(datacontenttype="text/plain\nx-other: 1")),
        (Address("http://127.0.0.1:1/"), EVENT.with_attributes(**{"no name": "x"})),
    ],
)
async def test_what_cannot_be_sent_is_not_accepted(sink: Address, event: CloudEvent) -> None:
    async with Sinks(Location) as sinks:
        with pytest.raises(NotAccepted):
            await sinks.send(sink, event, "ns")


async def test_a_name_with_nothing_behind_it_is_told() -> None:
    def locate(url: str) -> Location:
        raise NothingThere("sink.ns:80 has no ready address behind it")

    async with Sinks(locate) as sinks:
        with pytest.raises(NotAccepted, match="no ready address"):
            await sinks.send(Address("http://sink.ns"), EVENT, "ns")
