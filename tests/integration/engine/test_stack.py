"""The whole stack as a user meets it: what it says and what it refuses."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

from penstock.engine.datadir import OWN
from tests.running import Stack
from tests.waiting import eventually


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "160"},
    )


def test_the_ready_lines_are_what_a_newcomer_needs(stack: Stack) -> None:
    eventually(lambda: any(line.startswith("For kubectl:") for line in stack.output))  # the last of them
    said = "\n".join(stack.output)
    assert re.search(r"^penstock is ready after [\d.]+ s", said, re.MULTILINE)
    assert f"export KUBECONFIG={stack.kubeconfig}" in said
    assert stack.settings.ingress_url in said
    assert stack.settings.api_url in said


def test_the_printed_commands_work_pasted_into_a_shell(stack: Stack) -> None:
    """A Broker, a subscriber, a Trigger and an event, with nothing but what was printed."""
    eventually(lambda: any(line.startswith("For kubectl:") for line in stack.output))  # the last of them
    lines = [line.strip() for line in stack.output]
    pasted = [line for line in lines if re.search(r"penstock (create|listen|send) ", line)]
    assert len(pasted) == 4
    chosen = [
        line if "--data-dir" in line or "listen" in line else f"{line} --data-dir {stack.settings.data_dir}"
        for line in pasted
    ]
    try:
        shell = subprocess.run(
            ["sh"], input="\n".join([*chosen, "wait"]), capture_output=True, text=True, timeout=300, check=False
        )
    finally:
        penstock("delete", "trigger/greetings", "--data-dir", str(stack.settings.data_dir))
    assert "broker/default" in shell.stdout, (shell.stdout, shell.stderr)
    assert "trigger/greetings created and ready" in shell.stdout
    assert '{"hello": "world"}' in shell.stdout, (shell.stdout, shell.stderr)
    assert "delivered to " in shell.stdout


def test_status_shows_every_component(stack: Stack) -> None:
    # The console comes after all others, and nobody waits for it.
    eventually(lambda: stack.record["components"]["console"]["state"] == "ready", 120)
    shown = penstock("status", "--data-dir", str(stack.settings.data_dir)).stdout
    for name, entry in stack.record["components"].items():
        state = rf"ready .*\b{entry['pid']} +\d+ " if name != "history" else "(resting|writing)"
        assert re.search(rf"^{name} +{state}", shown, re.MULTILINE), shown
    assert f"kcat -F {stack.settings.data_dir}/pki/kafka-client.conf" in shown


def _rights_of_others(path: Path) -> int:
    try:
        found = path.lstat()
    except FileNotFoundError:  # files come and go in a running stack
        return 0
    return 0 if stat.S_ISLNK(found.st_mode) else found.st_mode & 0o077


def test_no_other_user_can_read_anything_in_the_data_folder(stack: Stack) -> None:
    """Looked at while everything runs: files of Kafka, of Spark, of SQLite and of the Python processes."""
    root = stack.settings.data_dir
    paths = [root, *root.rglob("*")]
    assert {path.name for path in paths} >= {"api.db", "kafka", "meta.properties", "kubeconfig", "stack.json", "spark"}
    assert not [str(path) for path in paths if _rights_of_others(path)]
    assert not [str(path) for path in root.iterdir() if not any(path.match(pattern) for pattern in OWN)]


def test_metrics_of_the_processes_are_served(stack: Stack) -> None:
    url = f"http://{stack.settings.host}:{stack.settings.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.status == 200
        assert b"# TYPE penstock_" in answer.read()


def test_a_second_stack_on_the_same_data_folder_is_refused(stack: Stack) -> None:
    refused = penstock("dev", "--port", "0", "--data-dir", str(stack.settings.data_dir))
    assert refused.returncode == 1
    assert f"Another stack (pid {stack.process.pid}) runs on the data folder" in refused.stderr


def test_a_port_in_use_is_refused(stack: Stack, tmp_path: Path) -> None:
    port = str(stack.settings.api_port)
    refused = penstock("dev", "--port", "0", "--api-port", port, "--data-dir", str(tmp_path))
    assert refused.returncode == 1
    assert f"Port {port} is in use" in refused.stderr
    assert "the Kubernetes API needs it" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_doctor_finds_this_machine_fit(stack: Stack) -> None:
    found = penstock("doctor", "--data-dir", str(stack.settings.data_dir))
    assert found.returncode == 0, found.stdout
    assert "Java: " in found.stdout
