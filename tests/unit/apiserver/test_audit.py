"""The audit log: who did what, and no secret among it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from penstock.apiserver.access.identity import ADMIN
from penstock.apiserver.http.audit import AuditFile, AuditMiddleware
from tests.unit.apiserver.api_in_process import ApiInProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Kept:
    """Lines in memory."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.lines.append(line)

    def close(self) -> None:
        pass

    @property
    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.lines]


def audited(api: ApiInProcess) -> tuple[ApiInProcess, Kept]:
    kept = Kept()
    return ApiInProcess(AuditMiddleware(api.app, kept), api.tokens), kept


async def test_a_request_leaves_a_line_without_its_secrets(api: ApiInProcess) -> None:
    client, kept = audited(api)
    secret = {"metadata": {"name": "audited"}, "stringData": {"password": "swordfish"}}
    await client.made("/api/v1/namespaces/default/secrets?fieldManager=me", secret)
    [event] = kept.events
    assert {key: event[key] for key in ("kind", "apiVersion", "level", "stage", "verb", "requestURI")} == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "stage": "ResponseComplete",
        "verb": "create",
        "requestURI": "/api/v1/namespaces/default/secrets?fieldManager=me",
    }
    assert event["user"] == {"username": ADMIN, "groups": ["system:masters", "system:authenticated"]}
    assert event["objectRef"] == {"resource": "secrets", "namespace": "default", "apiVersion": "v1"}
    assert event["responseStatus"] == {"metadata": {}, "code": 201}
    assert event["sourceIPs"] == ["127.0.0.1"]
    assert not any(word in kept.lines[0] for word in (b"swordfish", client.tokens[ADMIN].encode()))


async def test_who_acts_as_somebody_else_is_named_beside_them(api: ApiInProcess) -> None:
    client, kept = audited(api)
    status, _ = await client.call("GET", "/apis/eventing.knative.dev/v1/namespaces/a/brokers/b", user="jane")
    [event] = kept.events
    assert status == 403
    assert (event["user"], event["impersonatedUser"]) == (
        {"username": ADMIN, "groups": ["system:masters", "system:authenticated"]},
        {"username": "jane", "groups": ["system:authenticated"]},
    )
    assert event["annotations"] == {"authorization.k8s.io/decision": "forbid"}
    assert event["objectRef"] == {
        "resource": "brokers",
        "namespace": "a",
        "name": "b",
        "apiGroup": "eventing.knative.dev",
        "apiVersion": "v1",
    }


async def test_a_wrong_token_is_noted_without_it(api: ApiInProcess) -> None:
    client, kept = audited(api)
    status, _ = await client.call("GET", "/api/v1/pods", token="a-wrong-token")
    assert (status, kept.events[0]["user"], b"a-wrong-token" in kept.lines[0]) == (401, {}, False)


async def test_a_watch_has_a_line_when_it_starts(api: ApiInProcess) -> None:
    client, kept = audited(api)
    path = "/api/v1/namespaces/nowhere/configmaps?watch=true&timeoutSeconds=1&resourceVersion=1"
    assert (await client.call("GET", path))[0] == 200
    assert [(event["stage"], event["verb"]) for event in kept.events] == [
        ("ResponseStarted", "watch"),
        ("ResponseComplete", "watch"),
    ]
    assert len({str(event["auditID"]) for event in kept.events}) == 1


async def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "log" / "audit.log"
    file = AuditFile(path)
    file.write(b'{"kind":"Event","what":"100%s"}')
    file.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {"kind": "Event", "what": "100%s"}
