"""The page of the stack: its components and the ends of their logs, for operators."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil

from penstock.console.stack_page import READ_BYTES, last_lines
from tests.unit.console.console_client import MakeClient


def write_stack(root: Path) -> None:
    (root / "run").mkdir()
    (root / "logs").mkdir()
    mine = {
        "state": "ready",
        "pid": os.getpid(),
        "created": psutil.Process().create_time(),
        "restarts": 2,
        "details": {"address": "127.0.0.1:8080", "router_problem": "waits for Kafka"},
    }
    (root / "run" / "stack.json").write_text(json.dumps({"state": "ready", "components": {"ingress": mine}}))
    lines = [{"event": "started", "level": "info"}, {"event": "<oh no>", "level": "error"}]
    (root / "logs" / "ingress.log").write_text("\n".join(map(json.dumps, lines)))
    (root / "secret.log").write_text("not for anybody")


def test_components_and_their_problems_are_shown(client_of: MakeClient, tmp_path: Path) -> None:
    write_stack(tmp_path)
    page = client_of().get("/stack").text
    assert "127.0.0.1:8080" in page
    assert "waits for Kafka" in page
    assert 'href="/stack/logs/ingress"' in page
    assert "penstock" in page
    assert "ingress" in client_of().get("/stack/components").text


def test_a_log_is_shown_as_text_and_no_other_file_is(client_of: MakeClient, tmp_path: Path) -> None:
    write_stack(tmp_path)
    client = client_of()
    page = client.get("/stack/logs/ingress").text
    assert "&lt;oh no&gt;" in page
    assert 'class="bad"' in page
    assert "started" not in client.get("/stack/logs/ingress?q=oh").text.partition("<ol")[2]
    for other in ("secret", "..%2Fsecret", "%2e%2e%2fsecret", "nothing"):
        assert client.get(f"/stack/logs/{other}").status_code == 404


def test_roles_that_run_elsewhere_are_not_shown(client_of: MakeClient) -> None:
    assert "run elsewhere" in client_of().get("/stack").text


def test_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "long.log"
    file.write_text("".join(f"line {number}\n" for number in range(READ_BYTES // 5)))
    lines = last_lines(file, 3)
    assert lines[-1] == f"line {READ_BYTES // 5 - 1}"
    assert len(lines) == 3
