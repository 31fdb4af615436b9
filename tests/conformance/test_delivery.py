"""What happens between a match and the end of a delivery: answers, retries, replies, dead letters, limits."""

from __future__ import annotations

import threading
import time

import pytest

from tests.conformance.world import QUIET_SECONDS, Answer, Manifest, Sink, World, binary, reply
from tests.waiting import eventually

FAST = {"retry": 2, "backoffPolicy": "linear", "backoffDelay": "PT0.1S"}
LETTERS = {"deadLetterSink": {"uri": "{sinks}/letters"}}
CHANNEL = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel"}

CODES: dict[int, bool] = {
    200: False,
    202: False,
    204: False,
    300: False,
    304: False,
    400: False,
    401: False,
    403: False,
    404: True,
    405: False,
    408: True,
    409: True,
    410: False,
    413: False,
    422: False,
    429: True,
    500: True,
    502: True,
    503: True,
    504: True,
}
"""Whether a delivery that is answered like this is tried again."""

ACCEPTED = threading.Event()
"""Set when the producer of the event `kept` has its answer."""


ANNOTATIONS = {"slow": {"penstock.dev/max-in-flight": "4"}}
"""Of Triggers, by name."""


def route(world: World, sink: str, delivery: Manifest | None = None, broker: str = "hub") -> Manifest:
    """A Trigger for the type that is named like its sink."""
    spec: Manifest = {
        "broker": broker,
        "filter": {"attributes": {"type": sink}},
        "subscriber": {"uri": f"{world.sinks.base}/{sink}"},
    }
    if delivery is not None:
        spec["delivery"] = _filled(delivery, world)
    metadata = {"name": sink, "annotations": ANNOTATIONS.get(sink, {})}
    return world.create({"kind": "Trigger", "metadata": metadata, "spec": spec})


def _filled(delivery: Manifest, world: World) -> Manifest:
    sink = delivery.get("deadLetterSink")
    return delivery | ({"deadLetterSink": {"uri": sink["uri"].replace("{sinks}", world.sinks.base)}} if sink else {})


def subscription(world: World, name: str, channel: str, **spec: Manifest) -> Manifest:
    full = {"channel": {**CHANNEL, "name": channel}, "subscriber": {"uri": f"{world.sinks.base}/{name}"}, **spec}
    return world.create({"kind": "Subscription", "metadata": {"name": name}, "spec": full})


@pytest.fixture(scope="module", autouse=True)
def scene(world: World) -> dict[str, Sink]:
    """Everything that the tests of this file need, made at once: each change of routes costs seconds."""
    letters = {"deadLetterSink": {"uri": f"{world.sinks.base}/letters"}}
    made = [
        world.create({"kind": "Broker", "metadata": {"name": "hub"}, "spec": {}}),
        world.create({"kind": "Broker", "metadata": {"name": "strict"}, "spec": {"delivery": {**FAST, **letters}}}),
        world.create({"kind": "Broker", "metadata": {"name": "bare"}, "spec": {"delivery": {}}}),
        world.create({"kind": "Channel", "metadata": {"name": "line"}, "spec": {}}),
        world.create({"kind": "Channel", "metadata": {"name": "careful"}, "spec": {"delivery": {**FAST, **letters}}}),
    ]
    sinks = {"letters": world.sinks.open("letters")}
    for code in CODES:
        sinks[f"code-{code}"] = world.sinks.open(f"code-{code}", Answer(code), Answer(202))
        made.append(route(world, f"code-{code}", {**FAST, "retry": 1}))
    flaky = [Answer(503), Answer(503), Answer(202)]
    for name, delivery, answers, broker in (
        ("once", {"retry": 0}, [Answer(500)], "hub"),
        ("later", {**FAST, "retry": 5}, [Answer(503, when=ACCEPTED), *flaky], "hub"),
        ("worn-out", {**FAST, **LETTERS}, [Answer(500, body=b"no")], "hub"),
        ("hopeless", {**FAST, **LETTERS}, [Answer(400)], "hub"),
        ("own", {"retry": 0}, [Answer(500)], "strict"),
        ("inherited", None, [Answer(500)], "strict"),
        ("unasked", None, [Answer(500)], "bare"),
        ("accepted", {"retry": 0}, [reply("never", status=202)], "hub"),
        ("never", {"retry": 0}, [Answer()], "hub"),
        ("mangled", {**FAST, **LETTERS}, [Answer(200, (("ce-specversion", "1.0"), ("ce-id", "m")))], "hub"),
        ("slow", {**FAST}, [Answer(after=0.2)], "hub"),
        ("oversized", {**FAST, **LETTERS}, [reply("huge", body=b"x" * 3_000_000)], "hub"),
        ("text", {**FAST, **LETTERS}, [Answer(200, (("content-type", "text/plain"),), b"thanks")], "hub"),
    ):
        sinks[name] = world.sinks.open(name, *answers)
        made.append(route(world, name, delivery, broker))
    sinks["bad-letters"] = world.sinks.open("bad-letters", Answer(503), Answer(503), Answer(202))
    sinks["to-bad-letters"] = world.sinks.open("to-bad-letters", Answer(400))
    made.append(route(world, "to-bad-letters", {**FAST, "deadLetterSink": {"uri": "{sinks}/bad-letters"}}))
    sinks["asked"] = world.sinks.open("asked", reply("out"))
    sinks["replied"] = world.sinks.open("replied")
    sinks["silent"] = world.sinks.open("silent", reply("dropped"))
    made.append(subscription(world, "asked", "line", reply={"uri": f"{world.sinks.base}/replied"}))
    made.append(subscription(world, "silent", "line"))
    sinks["own-options"] = world.sinks.open("own-options", Answer(500))
    sinks["channel-options"] = world.sinks.open("channel-options", Answer(500))
    made.append(subscription(world, "own-options", "careful", delivery={"retry": 0}))
    made.append(subscription(world, "channel-options", "careful"))
    world.all_ready(made)
    return sinks


@pytest.fixture(scope="module")
def answered(world: World, scene: dict[str, Sink]) -> None:
    """One event for each code, sent together and given time for one attempt too many."""
    for code in CODES:
        world.send("Broker", "hub", binary(f"answered-{code}", f"code-{code}"))
    for code, again in CODES.items():
        scene[f"code-{code}"].wait(f"answered-{code}", 2 if again else 1)
    time.sleep(QUIET_SECONDS)


@pytest.mark.assertion("et-ack-01", "et-ack-03", "et-retry-01", "cp-delivery-02", "et-delivery-02", "dd-01")
@pytest.mark.parametrize(("code", "again"), list(CODES.items()), ids=[str(code) for code in CODES])
def test_the_answer_decides_whether_to_try_again(
    answered: None, scene: dict[str, Sink], code: int, again: bool
) -> None:
    assert len(scene[f"code-{code}"].got(f"answered-{code}")) == (2 if again else 1)


@pytest.mark.assertion("cp-routing-03", "et-routing-03", "cp-topology-03", "et-topology-03")
def test_an_accepted_event_needs_its_producer_no_more(world: World, scene: dict[str, Sink]) -> None:
    # An answer that came only after the first attempt had ended would never come: that attempt waits for it.
    world.send("Broker", "hub", binary("kept", "later"))
    ACCEPTED.set()
    assert len(scene["later"].wait("kept", 4)) == 4


@pytest.mark.assertion("br-delivery-04", "dd-02")
def test_an_event_that_is_dropped_is_tried_as_often_as_asked_and_told_to_the_operator(
    world: World, scene: dict[str, Sink]
) -> None:
    world.send("Broker", "hub", binary("once-1", "once"))
    scene["once"].exactly("once-1", 1)
    logs = world.stack.settings.data_dir / "logs"

    def told() -> list[str]:
        lines = [line for path in logs.glob("*.log") for line in path.read_text(errors="replace").splitlines()]
        return [line for line in lines if "once-1" in line and "dropped" in line]

    (line,) = eventually(told)
    assert world.namespace in line


@pytest.mark.assertion("cp-delivery-01", "et-delivery-01", "et-delivery-06")
@pytest.mark.parametrize(("name", "attempts", "code"), [("worn-out", 3, "500"), ("hopeless", 1, "400")])
def test_what_cannot_be_delivered_becomes_a_dead_letter(
    world: World, scene: dict[str, Sink], name: str, attempts: int, code: str
) -> None:
    world.send("Broker", "hub", binary(f"dead-{name}", name, colour="blue"))
    (letter,) = scene["letters"].exactly(f"dead-{name}", 1)
    assert len(scene[name].got(f"dead-{name}")) == attempts
    assert letter.attribute("knativeerrorcode") == code
    assert letter.attribute("knativeerrordest") == scene[name].url
    assert letter.attribute("colour") == "blue"
    assert "prefer" not in letter.headers


@pytest.mark.assertion("cp-delivery-04")
def test_dead_letters_are_retried_too(world: World, scene: dict[str, Sink]) -> None:
    world.send("Broker", "hub", binary("stubborn", "to-bad-letters"))
    scene["bad-letters"].exactly("stubborn", 3)
    assert len(scene["to-bad-letters"].got("stubborn")) == 1


@pytest.mark.assertion("br-spec-01")
def test_without_any_delivery_options_there_is_one_attempt(world: World, scene: dict[str, Sink]) -> None:
    world.send("Broker", "bare", binary("unasked-1", "unasked"))
    scene["unasked"].exactly("unasked-1", 1)


@pytest.mark.assertion("br-spec-02", "br-spec-03", "et-broker-schema-01")
def test_the_delivery_of_a_trigger_replaces_its_brokers(world: World, scene: dict[str, Sink]) -> None:
    world.send("Broker", "strict", binary("own-1", "own"))
    world.send("Broker", "strict", binary("inherited-1", "inherited"))
    scene["letters"].exactly("inherited-1", 1)
    assert len(scene["inherited"].got("inherited-1")) == 3
    scene["own"].exactly("own-1", 1)
    assert scene["letters"].got("own-1") == []


@pytest.mark.assertion("et-channel-schema-02")
def test_the_delivery_of_a_subscription_replaces_its_channels(world: World, scene: dict[str, Sink]) -> None:
    world.send("Channel", "careful", binary("careful-1"))
    letters = scene["letters"].exactly("careful-1", 1)
    assert letters[0].attribute("knativeerrordest") == scene["channel-options"].url
    assert len(scene["channel-options"].got("careful-1")) == 3
    scene["own-options"].exactly("careful-1", 1)


@pytest.mark.assertion("et-delivery-03", "et-delivery-04", "et-reply-01", "et-reply-04")
def test_replies_go_to_the_reply_destination_and_nowhere_without_one(world: World, scene: dict[str, Sink]) -> None:
    before = len(scene["replied"].requests)
    world.send("Channel", "line", binary("ask-1"))
    scene["asked"].wait("ask-1")
    (answer,) = scene["replied"].exactly("reply-1", before + 1)[before:]
    assert answer.attribute("type") == "out"
    assert "prefer" not in answer.headers
    assert scene["asked"].got("ask-1")[0].headers["prefer"] == "reply"
    assert scene["silent"].wait("ask-1")[0].headers["prefer"] == "reply"
    assert not [got for got in scene["replied"].requests if got.attribute("type") == "dropped"]


@pytest.mark.assertion("et-reply-02", "et-reply-03")
def test_an_answer_of_202_is_never_a_reply(world: World, scene: dict[str, Sink]) -> None:
    world.send("Broker", "hub", binary("accepted-1", "accepted"))
    scene["accepted"].exactly("accepted-1", 1)
    assert scene["never"].requests == []


@pytest.mark.assertion("br-delivery-06")
def test_a_malformed_reply_fails_the_delivery(world: World, scene: dict[str, Sink]) -> None:
    world.send("Broker", "hub", binary("mangled-1", "mangled"))
    scene["letters"].exactly("mangled-1", 1)
    assert len(scene["mangled"].got("mangled-1")) == 3


@pytest.mark.assertion("cp-routing-11", "cp-routing-12", "br-delivery-07", "et-routing-12")
def test_a_reply_that_cannot_be_stored_fails_the_delivery(world: World, scene: dict[str, Sink]) -> None:
    world.send("Broker", "hub", binary("oversized-1", "oversized"))
    scene["letters"].exactly("oversized-1", 1)
    assert len(scene["oversized"].got("oversized-1")) == 3


@pytest.mark.assertion("et-ack-03")
def test_an_answer_that_is_no_event_completes_the_delivery(world: World, scene: dict[str, Sink]) -> None:
    world.send("Broker", "hub", binary("text-1", "text"))
    scene["text"].exactly("text-1", 1)
    assert scene["letters"].got("text-1") == []


@pytest.mark.assertion("et-ack-05")
def test_requests_at_once_are_bounded(world: World, scene: dict[str, Sink]) -> None:
    world.ready("Trigger", "slow")
    for number in range(40):
        world.send("Broker", "hub", binary(f"slow-{number}", "slow"))
    for number in range(40):
        scene["slow"].wait(f"slow-{number}")
    assert 1 <= scene["slow"].most_under_way <= 4
