"""What `docs/tutorial-failures.md` tells a newcomer to do works, command by command; only the ports are others here."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.running import Stack, held_ports
from tests.waiting import eventually

PAGE = (Path(__file__).parents[3] / "docs" / "tutorial-failures.md").read_text()
NAMESPACE = "tutorial"


class Subscriber:
    """Stands in for `penstock listen`: gets events at a port, and answers with what the page says."""

    def __init__(self, port: int, answer: int) -> None:
        self.answer = answer
        self._seen: list[tuple[int, dict[str, object]]] = []
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with owner._lock:
                    status = owner.answer
                    owner._seen.append((status, {**event, "replay": self.headers["ce-penstockreplay"]}))
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def answers_with(self, status: int) -> None:
        with self._lock:
            self.answer = status

    def seen(self, status: int) -> list[dict[str, object]]:
        with self._lock:
            return [event for answered, event in self._seen if answered == status]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Reader:
    """Somebody who types what the page says."""

    def __init__(self, stack: Stack, folder: Path, ports: dict[str, int]) -> None:
        self._stack, self._folder, self._ports = stack, folder, ports
        self._lines = [line for line in re.findall(r"^\$ (penstock .*)$", PAGE, re.MULTILINE) if "listen" not in line]

    def types(self, beginning: str, code: int = 0) -> str:
        """The next line of the page, which begins so; gives what it prints."""
        line = self._lines.pop(0)
        assert line.startswith(f"penstock {beginning}"), line
        where = ["--data-dir", str(self._stack.settings.data_dir), "--namespace", NAMESPACE]
        ran = subprocess.run(
            [sys.executable, "-m", "penstock.cli", *shlex.split(self.here(line))[1:], *where],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            cwd=self._folder,
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        )
        assert ran.returncode == code, (line, ran.stdout, ran.stderr)
        return ran.stdout

    def here(self, text: str) -> str:
        for usual, port in self._ports.items():
            text = text.replace(f":{usual}/", f":{port}/")
        return text

    @property
    def is_done(self) -> bool:
        return not self._lines


@pytest.fixture
def subscribers() -> Iterator[dict[str, Subscriber]]:
    opened: dict[str, Subscriber] = {}
    yield opened
    for subscriber in opened.values():
        subscriber.close()


def test_the_page_leads_through_a_failure(stack: Stack, tmp_path: Path, subscribers: dict[str, Subscriber]) -> None:
    first, second = held_ports(2)
    reader = Reader(stack, tmp_path, {"9000": first, "9001": second})
    [manifest] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "brittle.yaml").write_text(reader.here(manifest))
    stack.kubectl("create", "namespace", NAMESPACE)

    reader.types("create broker")
    reader.types("create trigger orders")
    orders = subscribers["orders"] = Subscriber(first, answer=503)
    reader.types("send")
    eventually(lambda: len(orders.seen(503)) >= 3, 120)
    assert "trigger/orders" in eventually_said(reader, stack)
    orders.answers_with(204)
    eventually(lambda: len(orders.seen(204)) >= 3, 120)

    reader.types("apply --file brittle.yaml --wait")
    assert "dropped" in reader.types("send", code=1)
    assert "trigger/brittle" in reader.types("deadletters")
    brittle = subscribers["brittle"] = Subscriber(second, answer=204)
    reader.types("redrive")
    again = brittle.seen(204)[-1]
    assert again["fragile"] is True
    assert again["replay"]

    assert "3 found" in reader.types("replay")
    reader.types("replay")
    eventually(lambda: len([one for one in orders.seen(204) if one["replay"]]) >= 3, 120)

    reader.types("pause")
    reader.types("send")
    assert "trigger/orders" in reader.types("lag --all")
    reader.types("resume")
    eventually(lambda: [one for one in orders.seen(204) if one["order"] == 4], 120)
    assert reader.is_done
    stack.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def eventually_said(reader: Reader, stack: Stack) -> str:
    """What `penstock lag` says when the failures have reached the Trigger's status."""
    path = '{.status.conditions[?(@.type=="Delivering")].status}'
    asked = ("-n", NAMESPACE, "get", "trigger", "orders", "-o", f"jsonpath={path}")
    eventually(lambda: stack.kubectl(*asked) == "False", 120)
    return reader.types("lag")
