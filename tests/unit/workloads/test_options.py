"""What the environment asks of an actor: images, durations, variables, references."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.workloads.actors.event_files import read_json
from penstock.workloads.actors.options import BrokenEnvironment, read_options, seconds
from penstock.workloads.actors.volume_files import VolumeFiles
from penstock.workloads.images import Actor, Images, refusal
from penstock.workloads.processes.environment import ConfigError, environment, references

RECEIVER = {
    "POD_NAME": "sink-1",
    "SYSTEM_NAMESPACE": "conformance",
    "EVENT_GENERATORS": "receiver",
    "EVENT_LOGS": "recorder,logger",
}
SENDER = {
    "POD_NAME": "emitter",
    "EVENT_GENERATORS": "sender",
    "EVENT_LOGS": "logger",
    "SINK": "http://sink",
    "INPUT_EVENT": "{}",
}
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u1", "labels": {"app": "x"}, "annotations": {"a/b": "c"}},
    "spec": {"nodeName": "penstock"},
    "status": {"podIP": "127.66.1.1", "hostIP": "127.0.0.1"},
}


@pytest.mark.parametrize(
    ("reference", "image"),
    [
        ("gcr.io/knative-nightly/knative.dev/eventing/test/test_images/recordevents@sha256:9daab3", "recordevents"),
        ("localhost:5000/eventshub:v1.2@sha256:00", "eventshub"),
        ("eventshub", "eventshub"),
        ("recordevents:latest", "recordevents"),
        ("gcr.io/knative-releases/knative.dev/eventing/cmd/event_display", "event_display"),
        ("ko.local/event_display-9d3b62d1a4a6f1d0c4c1b1a4e9f0a1b2:latest", "event_display"),
        ("docker.io/library/nginx", None),
        ("example.com/recordevents/other", None),
        ("example.com/my-recordevents", None),
        ("", None),
    ],
)
def test_an_image_is_known_by_its_last_segment(reference: str, image: str | None) -> None:
    known = Images({}).find(reference, "ns")
    assert (known.name if isinstance(known, Actor) else known) == image


def test_a_refusal_says_which_setting_to_add() -> None:
    assert '[images] "docker.io/nginx" = ' in refusal("docker.io/nginx:1.27", "ns")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5", 5.0), ("0", 0.0), ("5s", 5.0), ("250ms", 0.25), ("1m30s", 90.0), ("1.5h", 5400.0), ("10us", 1e-5)],
)
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["soon", "5 s", "-1s", "s", "1d", "PT2S"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(text)


@given(st.text())
def test_a_duration_is_a_number_or_an_explained_error(text: str) -> None:
    try:
        assert seconds(text) >= 0
    except ValueError as error:
        assert "is not a duration" in str(error) or "Exceeds" in str(error)  # noqa: PT017


def test_a_receiver_with_nothing_special() -> None:
    options = read_options("recordevents", RECEIVER)
    assert options.sender is None
    assert options.receiver is not None
    assert (options.receiver.reply, options.receiver.skip_code) == (False, 409)
    assert options.common.vents == ("logger", "recorder")
    assert [options.receiver.skips()(number) for number in (1, 2)] == [False, False]


def test_a_sequence_rejects_the_first_ones_and_counts_anew_after_a_restart() -> None:
    options = read_options("recordevents", RECEIVER | {"SKIP_ALGORITHM": "sequence", "SKIP_COUNTER": "3"})
    assert options.receiver is not None
    for _ in range(2):
        skips = options.receiver.skips()
        assert [skips(number) for number in range(1, 6)] == [True, True, True, False, False]


def test_fibonacci_receives_the_numbers_of_the_sequence() -> None:
    options = read_options("eventshub", RECEIVER | {"SKIP_ALGORITHM": "fibonacci"})
    assert options.receiver is not None
    skips = options.receiver.skips()
    assert [number for number in range(1, 25) if not skips(number)] == [1, 2, 3, 5, 8, 13, 21]


def test_a_sender_has_the_defaults_of_its_image() -> None:
    record = read_options("recordevents", SENDER).sender
    hub = read_options("eventshub", SENDER).sender
    assert record is not None
    assert hub is not None
    assert (record.delay, record.period, record.count, record.encoding, record.probe) == (5, 5, 1, "binary", False)
    assert (hub.probe, hub.probe_timeout) == (True, 60)


def test_both_roles_in_one_container() -> None:
    options = read_options("eventshub", RECEIVER | SENDER | {"EVENT_GENERATORS": "receiver, sender"})
    assert options.receiver is not None
    assert options.sender is not None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"EVENT_GENERATORS": ""}, "EVENT_GENERATORS"),
        ({"EVENT_GENERATORS": "reciever"}, "EVENT_GENERATORS"),
        ({"EVENT_LOGS": "printer"}, "EVENT_LOGS"),
        ({"SYSTEM_NAMESPACE": ""}, "SYSTEM_NAMESPACE"),
        ({"SKIP_ALGORITHM": "random"}, "SKIP_ALGORITHM"),
        ({"SKIP_COUNTER": "three"}, "SKIP_COUNTER"),
        ({"SKIP_RESPONSE_CODE": "99"}, "SKIP_RESPONSE_CODE"),
        ({"SKIP_RESPONSE_HEADERS": "nothing"}, "SKIP_RESPONSE_HEADERS"),
        ({"REPLY": "yes"}, "REPLY"),
        ({"RESPONSE_WAIT_TIME": "soon"}, "RESPONSE_WAIT_TIME"),
        ({"EVENT_FORMAT": "xml"}, "EVENT_FORMAT"),
    ],
)
def test_a_broken_receiver_names_the_variable(changes: dict[str, str], named: str) -> None:
    with pytest.raises(BrokenEnvironment, match=named):
        read_options("eventshub", RECEIVER | changes)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"SINK": ""}, "SINK"),
        ({"SINK": "sink.default"}, "SINK"),
        ({"INPUT_EVENT": ""}, "INPUT_EVENT"),
        ({"INPUT_EVENT": "{"}, "INPUT_EVENT"),
        ({"INPUT_EVENT": "[]"}, "INPUT_EVENT"),
        ({"DELAY": "x"}, "DELAY"),
        ({"MAX_MESSAGES": "-1"}, "MAX_MESSAGES"),
        ({"EVENT_ENCODING": "avro"}, "EVENT_ENCODING"),
        ({"ADD_SEQUENCE": "maybe"}, "ADD_SEQUENCE"),
    ],
)
def test_a_broken_sender_names_the_variable(changes: dict[str, str], named: str) -> None:
    with pytest.raises(BrokenEnvironment, match=named):
        read_options("recordevents", SENDER | changes)


def container(*env: dict[str, Any]) -> dict[str, Any]:
    return {"name": "c", "image": "eventshub", "env": list(env)}


def field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def test_fields_of_the_pod() -> None:
    env = environment(
        POD,
        container(
            field("NAME", "metadata.name"),
            field("NS", "metadata.namespace"),
            field("IP", "status.podIP"),
            field("APP", "metadata.labels['app']"),
            field("NOTE", "metadata.annotations['a/b']"),
            field("ACCOUNT", "spec.serviceAccountName"),
        ),
        {},
    )
    assert env == {"NAME": "p", "NS": "ns", "IP": "127.66.1.1", "APP": "x", "NOTE": "c", "ACCOUNT": "default"}


def test_values_refer_to_earlier_ones() -> None:
    env = environment(
        POD,
        container(
            {"name": "HOST", "value": "sink"},
            {"name": "SINK", "value": "http://$(HOST)/$(UNKNOWN)?cost=$$(HOST)"},
            {"name": "EMPTY"},
        ),
        {},
    )
    assert env["SINK"] == "http://sink/$(UNKNOWN)?cost=$(HOST)"
    assert env["EMPTY"] == ""


def test_a_missing_key_stops_the_container_unless_optional() -> None:
    ref = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}
    assert references(container(ref)) == [("configmap", "cm")]
    assert environment(POD, container(ref), {("configmap", "cm"): {"k": "v"}}) == {"A": "v"}
    with pytest.raises(ConfigError, match='key k in configmap "cm"'):
        environment(POD, container(ref), {("configmap", "cm"): {}})
    with pytest.raises(ConfigError, match='configmap "cm" not found'):
        environment(POD, container(ref), {("configmap", "cm"): None})
    ref["valueFrom"]["configMapKeyRef"]["optional"] = True  # type: ignore[index]
    assert environment(POD, container(ref), {("configmap", "cm"): None}) == {}


@pytest.mark.parametrize("path", ["spec.replicas", "metadata.labels", ""])
def test_a_field_that_does_not_exist(path: str) -> None:
    with pytest.raises(ConfigError, match="no field"):
        environment(POD, container(field("X", path)), {})


def test_input_event_is_read_as_json() -> None:
    sender = read_options("recordevents", SENDER | {"INPUT_EVENT": json.dumps({"type": "a"})}).sender
    assert sender is not None
    assert sender.event == {"type": "a"}


def test_a_forwarder_sends_events_from_files() -> None:
    env = {"EVENT_GENERATORS": "forwarder", "SINK": "http://sink", "FROM_FILES": "/etc/a/event,/etc/b/event"}
    sender = read_options("eventshub", env).sender
    assert sender is not None
    assert (sender.files, sender.delay, sender.probe) == (("/etc/a/event", "/etc/b/event"), 0.0, False)
    with pytest.raises(BrokenEnvironment, match="FROM_FILES is empty"):
        read_options("eventshub", {**env, "FROM_FILES": ""})


async def test_the_event_of_a_file_is_read(tmp_path: Path) -> None:
    files, event = VolumeFiles([("/etc/a", str(tmp_path))]), tmp_path / "event"
    event.write_text('{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"a": 1}}')
    read = await read_json("/etc/a/event", files)
    assert (read.id, read.data) == ("1", b'{"a": 1}')
    event.write_text("{}")
    for path in ("/etc/a/event", "/etc/a/absent"):
        with pytest.raises(BrokenEnvironment, match=f"FROM_FILES: {path} has no event"):
            await read_json(path, files)
