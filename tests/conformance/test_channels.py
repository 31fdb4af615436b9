"""The lifecycle of Channels."""

from __future__ import annotations

import pytest

from tests.conformance.world import Manifest, World, binary, condition, request

IMC: Manifest = {"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel"}


@pytest.fixture(scope="module", autouse=True)
def scene(world: World) -> None:
    world.sinks.open("channels")
    made = world.make(
        """
kind: Channel
metadata: {name: plain}
---
kind: Channel
metadata: {name: letters}
spec: {delivery: {retry: 1, deadLetterSink: {uri: "{sinks}/channels"}}}
---
kind: Channel
metadata: {name: fixed}
---
kind: Subscription
metadata: {name: plain}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: plain}
  subscriber: {uri: "{sinks}/channels"}
"""
    )
    world.all_ready(made)


@pytest.mark.assertion("cp-channel-01", "et-channel-01", "et-channel-03", "cp-topology-01", "et-topology-01")
@pytest.mark.assertion("cp-addressable-03", "et-destination-05")
def test_a_ready_channel_is_addressable_and_takes_events(world: World) -> None:
    channel = world.get("Channel", "plain")
    assert condition(channel)["status"] == "True"
    assert request(channel["status"]["address"]["url"], "POST", binary("1"), b"{}").status == 202


@pytest.mark.assertion("cp-channel-03")
def test_the_channel_template_is_filled_in_at_creation(world: World) -> None:
    template = world.get("Channel", "plain")["spec"]["channelTemplate"]
    assert template["apiVersion"] == "messaging.knative.dev/v1"
    assert template["kind"] == "InMemoryChannel"


@pytest.mark.assertion("cp-channel-04", "cp-channel-05", "et-channel-05", "et-channel-06")
def test_the_channel_template_cannot_change_but_a_channel_can_be_made_anew(world: World) -> None:
    patch: Manifest = {"spec": {"channelTemplate": {**IMC, "spec": {"delivery": {"retry": 5}}}}}
    assert "Immutable" in world.refused(lambda: world.patch("Channel", "fixed", patch))
    world.delete("Channel", "fixed")
    world.create({"kind": "Channel", "metadata": {"name": "fixed"}, "spec": patch["spec"]})
    assert world.get("Channel", "fixed")["spec"]["channelTemplate"]["spec"] == {"delivery": {"retry": 5}}


@pytest.mark.assertion("et-channel-schema-01")
def test_subscribers_are_kept_by_the_controller(world: World) -> None:
    spec = {"subscribers": [{"uid": "1", "subscriberUri": "http://127.0.0.1:1"}]}
    refusal = world.refused(lambda: world.create({"kind": "Channel", "metadata": {"name": "own"}, "spec": spec}))
    assert "subscribers" in refusal
    backing = world.get("InMemoryChannel", "plain")
    (subscriber,) = backing["spec"]["subscribers"]
    subscription = world.get("Subscription", "plain")
    assert subscriber["uid"] == subscription["metadata"]["uid"]
    assert subscriber["subscriberUri"] == f"{world.sinks.base}/channels"
    (status,) = backing["status"]["subscribers"]
    assert (status["uid"], status["ready"]) == (subscription["metadata"]["uid"], "True")


@pytest.mark.assertion("et-subscriber-01")
def test_a_subscribers_dead_letter_sink_is_given_as_uri(world: World) -> None:
    world.make(
        """
kind: Subscription
metadata: {name: letters}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: letters}
  subscriber: {uri: "{sinks}/channels"}
  delivery: {deadLetterSink: {ref: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: plain}}}
"""
    )
    world.ready("Subscription", "letters")
    (subscriber,) = world.get("InMemoryChannel", "letters")["spec"]["subscribers"]
    assert subscriber["delivery"]["deadLetterSink"]["uri"] == world.address("Channel", "plain")


@pytest.mark.assertion("et-channel-schema-04")
def test_the_dead_letter_sink_of_a_channel_is_resolved(world: World) -> None:
    assert world.get("Channel", "letters")["status"]["deadLetterSinkUri"] == f"{world.sinks.base}/channels"
