"""Whose routes they are: a control plane of another API leaves them alone unless it is told to adopt them."""

from __future__ import annotations

import pytest

from penstock.contract.routes import IDENTITY_KEY, Identity, Route, encode
from penstock.controllers.routes import identity
from penstock.controllers.routes.identity import NotIdentified, OtherApi
from penstock.kube.client import Listing
from penstock.kube.errors import Unavailable
from penstock.kube.kinds import BROKER, Kind
from penstock.settings import Settings
from tests.unit.controllers.api_double import ApiDouble, TopicDouble, refuse
from tests.unit.controllers.memory_plane import ControlPlane

OTHERS = Route("theirs", "Trigger", "ns", "theirs", "target", start=(7, 9))


@pytest.fixture
def topic() -> TopicDouble:
    """Holds a route of another API."""
    topic = TopicDouble()
    topic.write(
        [(IDENTITY_KEY, encode(Identity("another cluster"))), ("route/theirs", encode(OTHERS))], b'{"version":4}'
    )
    return topic


async def test_routes_of_another_api_stay_as_they_are(topic: TopicDouble) -> None:
    before = dict(topic.records)
    plane = ControlPlane(ApiDouble(Settings()), topic, Settings())
    with pytest.raises(ExceptionGroup) as ended:
        await plane.ended()
    [reason] = ended.value.exceptions
    assert isinstance(reason, OtherApi)
    assert "The 1 routes in this Kafka" in str(reason)
    assert "has the uid another cluster, this one's has this cluster" in str(reason)
    assert topic.records == before
    await plane.stop()


async def test_they_are_taken_over_where_that_is_said(topic: TopicDouble) -> None:
    settings = Settings(adopt_routes=True)
    plane = ControlPlane(ApiDouble(settings), topic, settings)
    await plane.until(lambda: "route/theirs" not in topic.records)
    assert plane.records()[IDENTITY_KEY] == Identity("this cluster")
    await plane.stop()


async def test_an_api_finds_its_own_routes_again() -> None:
    topic, api = TopicDouble(), ApiDouble(Settings())
    api.apply(BROKER, {"metadata": {"name": "b", "namespace": "ns"}})
    plane = ControlPlane(api, topic, Settings())
    await plane.until(lambda: plane.ready(BROKER, "b"))
    published = dict(topic.records)
    await plane.stop()
    plane = ControlPlane(api, topic, Settings())
    await plane.settled()
    assert topic.records == published
    assert plane.records()[IDENTITY_KEY] == Identity("this cluster")
    await plane.stop()


async def test_routes_of_a_version_without_identities_are_its_own(topic: TopicDouble) -> None:
    del topic.records[IDENTITY_KEY]
    plane = ControlPlane(ApiDouble(Settings()), topic, Settings())
    await plane.until(lambda: IDENTITY_KEY in topic.records)
    await plane.stop()


class Shy(ApiDouble):
    """Answers so often that it is not there, and then what it is told to."""

    def __init__(self, away: int, answer: Exception | None) -> None:
        super().__init__(Settings())
        self.away, self.answer = away, answer

    async def list(self, kind: Kind, namespace: str | None = None) -> Listing:
        self.away -= 1
        if self.away >= 0:
            raise Unavailable("connection refused")
        if self.answer is not None:
            raise self.answer
        return await super().list(kind, namespace)


async def test_an_api_that_does_not_answer_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "RETRY_SECONDS", 0.0)
    assert await identity.identify(Shy(3, None)) == Identity("this cluster")  # type: ignore[arg-type]


async def test_a_missing_right_is_named() -> None:
    with pytest.raises(NotIdentified, match="the right to list namespaces"):
        await identity.identify(Shy(0, refuse(403, "forbidden")))  # type: ignore[arg-type]
