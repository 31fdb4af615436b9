"""Protobuf bodies as Go clients send them, against the JSON of the same objects. `make protobuf` wrote both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.apiserver.errors import ApiError
from penstock.apiserver.http.requests import delete_options
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.protobuf import json_form
from penstock.apiserver.protobuf.messages import kind_message
from penstock.apiserver.verbs.deletion import DeleteOptions

FOLDER = Path(__file__).with_name("bodies")
NAMES = sorted(path.stem for path in FOLDER.glob("*.pb"))


def sent(name: str) -> bytes:
    return (FOLDER / f"{name}.pb").read_bytes()


def parsed(name: str) -> dict[str, Any]:
    return json_form.parse(sent(name))


def said(value: Any) -> Any:
    """Without what Go's JSON writes although it says nothing: nulls, and objects without content."""
    if isinstance(value, dict):
        parts = {key: said(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in (None, {}) and (key, part) != ("targetPort", 0)}
    return [said(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", NAMES)
def test_both_forms_say_the_same(name: str) -> None:
    assert said(parsed(name)) == said(json.loads((FOLDER / f"{name}.json").read_bytes()))


def test_there_is_a_body_of_every_kind_that_clients_write() -> None:
    stored = {kind.kind.lower() for kind in CORE_KINDS if "update" in kind.verbs}
    assert stored <= set(NAMES)
    for kind in CORE_KINDS:
        assert kind_message(kind.api_version, kind.kind).DESCRIPTOR.name == kind.kind


def test_zero_is_a_value_where_go_has_a_pointer_and_nothing_elsewhere() -> None:
    spec = parsed("pod")["spec"]
    assert spec["terminationGracePeriodSeconds"] == 0
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {"runAsUser": 0}
    assert spec["volumes"][0] == {"name": "scratch", "emptyDir": {}}
    for field in ("hostNetwork", "restartPolicy", "nodeName", "serviceAccountName"):
        assert field not in spec
    container = spec["containers"][0]
    assert container["env"][0] == {"name": "EMPTY"}
    assert container["args"] == ["", "-v"]
    assert "initialDelaySeconds" not in container["readinessProbe"]
    assert parsed("job")["spec"]["backoffLimit"] == 0
    assert parsed("deployment")["spec"]["replicas"] == 0
    assert parsed("lease")["spec"]["leaseTransitions"] == 0
    assert parsed("endpointslice")["endpoints"][0]["conditions"] == {"ready": False}


def test_values_with_a_form_of_their_own() -> None:
    container = parsed("pod")["spec"]["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "1Gi"}}
    assert container["readinessProbe"]["httpGet"]["port"] == "http"
    assert container["livenessProbe"]["tcpSocket"]["port"] == 8080
    assert parsed("lease")["spec"]["renewTime"] == "2026-02-03T04:05:06.789012Z"
    assert parsed("event")["lastTimestamp"] == "2026-02-03T04:05:06Z"
    assert "eventTime" not in parsed("event")
    assert parsed("configmap")["binaryData"] == {"raw": "AP8="}
    assert parsed("tokenrequest")["spec"]["boundObjectRef"]["uid"] == "u"
    assert parsed("subjectaccessreview")["spec"]["extra"] == {"scopes": ["a", "b"]}
    schema = parsed("customresourcedefinition")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert schema["size"]["default"] == 0
    assert schema["any"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert schema["open"]["additionalProperties"] is True


def test_options_of_a_delete() -> None:
    expected = DeleteOptions("Foreground", 0, "u")
    assert delete_options(sent("deleteoptions"), json_form.MEDIA, {}) == (expected, False)


@given(st.sampled_from(NAMES), st.data())
def test_a_damaged_body_is_read_or_refused(name: str, data: st.DataObject) -> None:
    body = bytearray(sent(name))
    place = data.draw(st.integers(4, len(body) - 1))
    body[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(place, len(body)))
    try:
        found = json_form.parse(bytes(body[:cut]))
    except ApiError as refused:
        code = refused.code
    else:
        code = 400 if isinstance(found, dict) else 500
    assert code in (400, 415)


@pytest.mark.parametrize(
    ("version", "kind"), [("tests.example/v1", "Widget"), ("v1", "X"), ("", ""), ("apps/v9", "Deployment")]
)
def test_a_kind_without_a_message_is_refused(version: str, kind: str) -> None:
    identity = b"\x0a" + bytes([len(version)]) + version.encode() + b"\x12" + bytes([len(kind)]) + kind.encode()
    with pytest.raises(ApiError) as refused:
        json_form.parse(b"k8s\x00\x0a" + bytes([len(identity)]) + identity)
    assert refused.value.code == 415
