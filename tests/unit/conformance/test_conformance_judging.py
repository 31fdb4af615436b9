"""The judgement over observations, on those that the document prints and on broken ones; and the manifests."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from penstock.conformance import manifests
from penstock.conformance.catalog import TESTS, DeliveryTest, find
from penstock.conformance.judging import enough, judge
from penstock.conformance.manifests import ManifestPlacement
from penstock.conformance.observations import Observation, read


def known(number: str) -> DeliveryTest:
    found = find(number)
    assert found is not None
    return found


LINEAR = known("05")
DEAD_LETTER = known("10")


def message(kind: str, sequence: int, time: str, sink: str = "sink-3nack", **changes: Any) -> str:
    """An observation as test 05 of the document prints it."""
    fields: dict[str, Any] = {
        "kind": kind,
        "event": {
            "specversion": "1.0",
            "id": "1",
            "source": "emitter-conformance",
            "type": "com.example.conformance",
            "datacontenttype": "application/json",
            "time": "2022-04-05T17:31:00Z",
            "data": {"test": "channel-retry-linear"},
            "sequence": "1",
        },
        "httpHeaders": {
            "Accept-Encoding": ["gzip"],
            "Content-Length": ["44"],
            "Content-Type": ["application/json"],
            "Host": [f"{sink}.conformance.svc.cluster.local"],
            "Prefer": ["reply"],
        },
        "origin": "172.17.0.1:7305",
        "observer": f"{sink}-47fnn",
        "time": time,
        "sequence": sequence,
    }
    fields["event"] |= changes.pop("event", {})
    fields["httpHeaders"] = {k: v for k, v in (fields["httpHeaders"] | changes.pop("headers", {})).items() if v}
    return json.dumps(fields | changes)


DOCUMENTED = [
    message("Rejected", 1, "2021-10-06T20:19:25.843310855Z"),
    message("Rejected", 2, "2021-10-06T20:19:25.866810367Z"),
    message("Rejected", 3, "2021-10-06T20:19:27.874018224Z"),
    message("Received", 1, "2021-10-06T20:19:31.886121214Z"),
]


def judged(test: DeliveryTest, **observed: list[str]) -> list[str]:
    seen = {name.replace("_", "-"): read(messages) for name, messages in observed.items()}
    return judge(test, "conformance", seen)


def test_what_the_document_prints_passes() -> None:
    assert judged(LINEAR, sink_3nack=DOCUMENTED) == []


def test_a_retry_may_come_as_much_later_as_was_said() -> None:
    late = [*DOCUMENTED[:3], message("Received", 1, "2021-10-06T20:19:33.886121214Z")]
    observed = {"sink-3nack": read(late)}
    assert judge(LINEAR, "conformance", observed, late=2.1) == []
    [problem] = judge(LINEAR, "conformance", observed, late=2.0)
    assert problem == "sink-3nack: attempt 4 came 6.012 s after the one before; expected 4 s (-0.1 s, +2 s)"


def test_observations_are_read_in_the_order_of_their_times() -> None:
    assert judged(LINEAR, sink_3nack=DOCUMENTED[::-1]) == []
    assert [seen.sequence for seen in read([*DOCUMENTED, "no json", "{}"])] == [1, 2, 3, 1]


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        (DOCUMENTED[:3], "expected Rejected 1, Rejected 2, Rejected 3, Received 1, observed Rejected 1, Rejected 2"),
        ([*DOCUMENTED, message("Received", 2, "2021-10-06T20:19:32Z")], "observed Rejected 1"),
        ([], "observed nothing"),
        ([*DOCUMENTED[:2], message("Rejected", 3, "2021-10-06T20:19:26Z"), DOCUMENTED[3]], "attempt 3 came 0.133 s"),
        ([*DOCUMENTED[:3], message("Received", 1, "2021-10-06T20:19:33Z")], "attempt 4 came 5.126 s"),
        ([*DOCUMENTED[:3], message("Received", 1, "2021-10-06T20:19:31.8Z", event={"id": "2"})], "id is '2'"),
        ([*DOCUMENTED[:3], message("Received", 1, "2021-10-06T20:19:31.8Z", event={"data": {}})], "data is {}"),
        ([message("Rejected", 1, "2021-10-06T20:19:25.8Z", headers={"Prefer": None}), *DOCUMENTED[1:]], "Prefer"),
        ([message("Rejected", 1, "2021-10-06T20:19:25.8Z", headers={"Host": ["x"]}), *DOCUMENTED[1:]], "Host"),
        ([message("Rejected", 1, "2021-10-06T20:19:25.8Z", headers={"Content-Type": None})], "Content-Type"),
    ],
)
def test_what_is_different_is_said(messages: list[str], complaint: str) -> None:
    assert complaint in " | ".join(judged(LINEAR, sink_3nack=messages))


@pytest.mark.parametrize(
    ("parents", "complaint"),
    [
        (["00-a-1-00", "00-a-2-00", "00-a-3-00", "00-a-4-00"], ""),
        (["00-a-1-00", "00-b-2-00", "00-a-3-00", "00-a-4-00"], "different traces"),
        (["00-a-1-00", "00-a-1-00", "00-a-3-00", "00-a-4-00"], "share a span"),
        (["nonsense", "00-a-1-00", "00-a-3-00", "00-a-4-00"], "not of the form"),
    ],
)
def test_attempts_belong_to_one_trace(parents: list[str], complaint: str) -> None:
    messages = []
    for text, parent in zip(DOCUMENTED, parents, strict=True):
        fields = json.loads(text)
        fields["httpHeaders"]["Traceparent"] = [parent]
        messages.append(json.dumps(fields))
    problems = " ".join(judged(LINEAR, sink_3nack=messages))
    assert complaint in problems
    assert bool(problems) is bool(complaint)


def test_what_an_emitter_sends_is_told() -> None:
    sent = manifests.sent_by(manifests.load("02-01-broker-ack.yaml", ManifestPlacement("elsewhere")))
    assert '"data":{"test":"broker-ack"}' in sent
    assert sent.endswith("/elsewhere/conformance-broker")


def test_a_dead_letter_carries_the_error() -> None:
    case = {"data": {"test": "broker-dls"}, "knativearrivaltime": "2021-10-06T20:55:19.451156218Z"}
    error = {"knativeerrorcode": "409", "knativeerrordata": "", "knativeerrordest": "http://sink-3nack"}
    rejected = message("Rejected", 1, "2021-10-06T20:55:19.4Z", event=case)
    letter: dict[str, Any] = {"sink": "sink-ack", "headers": {"Prefer": None}}
    good = message("Received", 1, "2021-10-06T20:55:19.5Z", event=case | error, **letter)
    assert judged(DEAD_LETTER, sink_3nack=[rejected], sink_ack=[good]) == []
    bare = message("Received", 1, "2021-10-06T20:55:19.5Z", event=case, **letter)
    assert {problem.split(" is ")[0] for problem in judged(DEAD_LETTER, sink_3nack=[rejected], sink_ack=[bare])} == {
        "sink-ack: knativeerrorcode",
        "sink-ack: knativeerrordata",
        "sink-ack: knativeerrordest",
    }
    eager = message("Received", 1, "2021-10-06T20:55:19.5Z", sink="sink-ack", event=case | error)
    assert "nobody takes" in judged(DEAD_LETTER, sink_3nack=[rejected], sink_ack=[eager])[0]


def test_a_reply_comes_from_the_pod_that_replied() -> None:
    test = known("11")
    first = message("Received", 1, "2021-10-06T21:48:23Z", "sink-ack-reply", event={"data": {"test": "channel-reply"}})
    reply = {"type": "conformance.reply", "data": {"conformance": "response message"}}
    second = {
        source: message(
            "Received",
            1,
            "2021-10-06T21:48:24Z",
            "sink-ack",
            event=reply | {"source": source},
            headers={"Prefer": None},
        )
        for source in ("sink-ack-reply-47fnn", "somebody")
    }
    assert judged(test, sink_ack_reply=[first], sink_ack=[second["sink-ack-reply-47fnn"]]) == []
    assert "source is 'somebody'" in judged(test, sink_ack_reply=[first], sink_ack=[second["somebody"]])[0]


def test_enough_is_as_many_as_expected_at_every_sink() -> None:
    seen = read(DOCUMENTED)
    assert enough(LINEAR, {"sink-3nack": seen})
    assert not enough(LINEAR, {"sink-3nack": seen[:3]})
    assert not enough(DEAD_LETTER, {"sink-3nack": seen})


def test_all_thirteen_tests_are_there() -> None:
    assert [test.number for test in TESTS] == [f"{number:02d}" for number in range(1, 14)]
    assert find("5") == find("05") == find("event-delivery/05")
    assert find("14") is None


def test_the_manifests_are_those_of_the_document() -> None:
    names = sorted(path.name for path in manifests.folder().glob("*.yaml"))
    expected = ["00-prepare.yaml", *sorted(name for test in TESTS for name in (test.scenario, test.emitter))]
    assert names == expected
    kinds = Counter(item["kind"] for name in names for item in manifests.load(name, ManifestPlacement()))
    assert kinds == {
        "Namespace": 1,
        "Role": 1,
        "RoleBinding": 1,
        "Channel": 1,
        "Broker": 1,
        "Pod": 31,
        "Service": 18,
        "Subscription": 7,
        "Trigger": 7,
    }


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.number)
def test_every_object_of_a_test_is_labelled_with_its_case(test: DeliveryTest) -> None:
    objects = manifests.load(test.scenario, ManifestPlacement()) + manifests.load(test.emitter, ManifestPlacement())
    assert {item["metadata"]["labels"]["case"] for item in objects} == {test.name}
    assert {item["metadata"]["namespace"] for item in objects} == {"conformance"}
    sinks = {item["metadata"]["labels"]["component"] for item in objects if item["kind"] == "Service"}
    assert sinks == {sink.component for sink in test.sinks}


def test_a_moved_test_refers_to_its_own_namespace_only() -> None:
    placement = ManifestPlacement("conformance-05", image="registry.example/recordevents")
    for test in TESTS:
        for name in (manifests.PREPARE, test.scenario, test.emitter):
            for item in manifests.load(name, placement):
                place = item["metadata"].get("namespace") or item["metadata"]["name"]
                assert place == "conformance-05"
                text = json.dumps(item)
                assert "kn-channel.conformance.svc" not in text
                assert "/conformance/conformance-broker" not in text
                assert "knative-nightly" not in text


def test_emitters_send_where_they_are_told_to() -> None:
    (emitter,) = manifests.load("01-01-channel-ack.yaml", replace(ManifestPlacement(), sink="http://elsewhere"))
    env = {entry["name"]: entry.get("value") for entry in emitter["spec"]["containers"][0]["env"]}
    assert env["SINK"] == "http://elsewhere"


def test_an_observation_finds_its_headers_in_any_spelling() -> None:
    seen: Observation = read(DOCUMENTED)[0]
    assert seen.header("content-type") == "application/json"
    assert seen.header("X-Missing") is None
