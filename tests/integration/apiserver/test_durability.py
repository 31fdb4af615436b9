"""What was acknowledged is there after a crash, and a restart changes nothing for clients."""

from __future__ import annotations

import http.client
import signal
import threading
import time
from pathlib import Path

from tests.integration.apiserver.api_process import started
from tests.waiting import eventually

PATH = "/api/v1/namespaces/default/configmaps"


def test_kill_9_during_writes_loses_no_acknowledged_write(tmp_path: Path) -> None:
    server = started(tmp_path)
    acknowledged: list[str] = []

    def write(writer: int) -> None:
        connection = server.connection()
        number = 0
        headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
        try:
            while True:
                name = f"w{writer}-{number}"
                connection.request("POST", PATH, f'{{"metadata":{{"name":"{name}"}}}}', headers)
                response = connection.getresponse()
                response.read()
                assert response.status == 201
                acknowledged.append(name)
                number += 1
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    while len(acknowledged) < 100:
        time.sleep(0.01)
    server.stop(signal.SIGKILL)
    for writer in writers:
        writer.join(timeout=60)
    token, authority = server.token, (tmp_path / "pki" / "ca.crt").read_bytes()
    server.start()
    try:
        kept = {item["metadata"]["name"] for item in server.call("GET", PATH).json()["items"]}
        assert set(acknowledged) <= kept
        # At most what was under way when the process died may be there besides.
        assert len(kept - set(acknowledged)) <= len(writers)
        server.connection().close()
        assert server.token == token
        assert (tmp_path / "pki" / "ca.crt").read_bytes() == authority
    finally:
        assert server.stop() == 0


def test_a_restart_keeps_objects_kinds_and_versions(tmp_path: Path) -> None:
    server = started(tmp_path)
    made = server.call("POST", PATH, {"metadata": {"name": "kept"}}).json()
    listed = server.call("GET", PATH).json()["metadata"]["resourceVersion"]
    assert server.stop() == 0
    server.start()
    try:
        assert server.call("GET", f"{PATH}/kept").json() == made
        assert "brokers" in server.kubectl("api-resources")
        # Nothing happened since, so a watch may go on from where the client was.
        query = f"{PATH}?watch=true&resourceVersion={listed}&timeoutSeconds=1"
        assert server.call("GET", query).body == b""
        newer = server.call("POST", PATH, {"metadata": {"name": "newer"}}).json()
        assert int(newer["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    finally:
        server.stop()


def test_a_namespace_that_was_going_goes_after_a_crash(tmp_path: Path) -> None:
    server = started(tmp_path)
    assert server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "going"}}).status == 201
    # The finalizer keeps it until it was looked at.
    made = {"metadata": {"name": "inside", "finalizers": ["tests.example/hold"]}}
    assert server.call("POST", "/api/v1/namespaces/going/configmaps", made).status == 201
    deleted = server.call("DELETE", "/api/v1/namespaces/going").json()
    server.stop(signal.SIGKILL)
    assert deleted["status"]["phase"] == "Terminating"
    server.start()
    try:
        inside = "/api/v1/namespaces/going/configmaps/inside"
        assert server.call("GET", inside).status == 200
        let_go = {"metadata": {"finalizers": None}}
        assert server.call("PATCH", inside, let_go, media="application/merge-patch+json").status == 200
        assert eventually(lambda: server.call("GET", "/api/v1/namespaces/going").status == 404)
        assert server.call("GET", inside).status == 404
    finally:
        server.stop()
