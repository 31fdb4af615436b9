"""The lifecycle of Subscriptions."""

from __future__ import annotations

import pytest

from tests.conformance.world import Manifest, World, binary, condition, settled

CHANNEL = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel"}
NOWHERE: Manifest = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "nowhere"}}


LOST: dict[str, tuple[Manifest, str]] = {
    "subscriberUri": ({"subscriber": NOWHERE}, "SubscriberResolveFailed"),
    "replyUri": ({"reply": NOWHERE}, "ReplyResolveFailed"),
    "deadLetterSinkUri": ({"delivery": {"deadLetterSink": NOWHERE}}, "DeadLetterSinkResolveFailed"),
}


@pytest.fixture(scope="module", autouse=True)
def scene(world: World) -> None:
    """All Subscriptions at once: each change of routes takes a while to be in force."""
    for name in ("waiting", "replies", "moving", "moved", "next"):
        world.sinks.open(name)
    channels = world.make("{kind: Channel, metadata: {name: hub}}\n---\n{kind: Channel, metadata: {name: other}}")
    made = [subscription(world, name) for name in ("moving", "next")]
    letters: Manifest = {"deadLetterSink": {"uri": f"{world.sinks.base}/letters"}}
    made.append(subscription(world, "resolved", reply={"ref": {**CHANNEL, "name": "other"}}, delivery=letters))
    made.append(subscription(world, "reply-only", subscriber=None, reply={"uri": world.sinks["replies"].url}))
    subscription(world, "waiting", "later")
    for uri, (spec, _) in LOST.items():
        subscription(world, f"lost-{uri.lower()}", **spec)
    world.all_ready(channels + made)


def subscription(world: World, name: str, channel: str = "hub", **spec: Manifest | None) -> Manifest:
    full: Manifest = {
        "channel": {**CHANNEL, "name": channel},
        "subscriber": {"uri": f"{world.sinks.base}/{name}"},
        **spec,
    }
    spec_given = {key: value for key, value in full.items() if value is not None}
    return world.create({"kind": "Subscription", "metadata": {"name": name}, "spec": spec_given})


@pytest.mark.assertion("cp-subscription-01", "cp-subscription-02", "et-subscription-02", "et-subscription-03")
def test_a_subscription_waits_for_its_channel(world: World) -> None:
    found = world.until("Subscription", "waiting", lambda item: settled(item) and condition(item)["status"])
    assert condition(found)["status"] != "True"
    assert condition(found)["reason"] == "ChannelReferenceFailed"
    world.create({"kind": "Channel", "metadata": {"name": "later"}, "spec": {}})
    world.ready("Subscription", "waiting")
    world.send("Channel", "later", binary("waited"))
    world.sinks["waiting"].wait("waited")


@pytest.mark.assertion("et-subscription-01")
def test_the_channel_is_in_the_same_namespace(world: World) -> None:
    channel = {**CHANNEL, "name": "hub", "namespace": "elsewhere"}
    spec = {"channel": channel, "subscriber": {"uri": "http://127.0.0.1:1"}}
    far = {"kind": "Subscription", "metadata": {"name": "far"}, "spec": spec}
    assert "spec.channel.namespace" in world.refused(lambda: world.create(far))


@pytest.mark.assertion("cp-subscription-03", "et-subscription-04")
def test_all_destinations_are_resolved_before_ready(world: World) -> None:
    physical = world.ready("Subscription", "resolved")["status"]["physicalSubscription"]
    assert physical["subscriberUri"] == f"{world.sinks.base}/resolved"
    assert physical["replyUri"] == world.address("Channel", "other")
    assert physical["deadLetterSinkUri"] == f"{world.sinks.base}/letters"


@pytest.mark.assertion("cp-subscription-04", "et-subscription-05", "et-subscription-06", "et-subscription-07")
@pytest.mark.assertion("cp-addressable-01", "cp-addressable-02", "et-destination-03", "et-destination-04")
@pytest.mark.parametrize("uri", LOST)
def test_an_unresolvable_destination_makes_a_subscription_unready(world: World, uri: str) -> None:
    reason = LOST[uri][1]
    found = world.ready("Subscription", f"lost-{uri.lower()}", status="False")
    assert not (found["status"].get("physicalSubscription") or {}).get(uri)
    assert condition(found, "ReferencesResolved")["reason"] == reason
    assert "nowhere" in condition(found)["message"]


@pytest.mark.assertion("cp-subscription-05", "cp-subscription-06", "et-subscription-08", "et-subscription-09")
def test_subscriber_or_reply_is_needed_and_reply_alone_gets_the_event(world: World) -> None:
    refusal = world.refused(lambda: subscription(world, "neither", subscriber=None))
    assert "spec.subscriber" in refusal
    world.send("Channel", "hub", binary("direct"))
    (got,) = world.sinks["replies"].exactly("direct", 1)
    assert "prefer" not in got.headers


@pytest.mark.assertion("cp-subscription-07", "cp-subscription-08", "et-subscription-10", "et-subscription-11")
def test_the_channel_of_a_subscription_cannot_change_and_the_rest_can(world: World) -> None:
    second = world.sinks["moved"]
    refusal = world.refused(lambda: world.patch("Subscription", "moving", {"spec": {"channel": {"name": "other"}}}))
    assert "Immutable" in refusal
    change = {"subscriber": {"uri": second.url}, "reply": {"uri": second.url}, "delivery": {"retry": 2}}
    world.patch("Subscription", "moving", {"spec": change})
    world.ready("Subscription", "moving")
    world.send("Channel", "hub", binary("moved-1"))
    second.exactly("moved-1", 1)
    world.delete("Subscription", "moving")
    assert subscription(world, "moving", "other")["spec"]["channel"]["name"] == "other"


@pytest.mark.assertion("cp-subscription-09", "et-subscription-12", "cp-channel-02", "et-channel-02", "et-channel-04")
@pytest.mark.assertion("cp-topology-04", "cp-topology-05", "et-topology-04", "et-topology-05")
def test_a_ready_subscription_gets_every_event_from_then_on(world: World) -> None:
    sink = world.sinks["next"]
    for number in range(20):
        world.send("Channel", "hub", binary(f"next-{number}"))
    world.send("Channel", "other", binary("not-mine"))
    for number in range(20):
        sink.wait(f"next-{number}")
    assert sink.got("not-mine") == []
