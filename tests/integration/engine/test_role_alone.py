"""Roles as processes of their own: `penstock apiserver` is probed, logs, and ends in order; a Lease has one holder."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.controllers import lease
from penstock.controllers.lease import LeaseClaim, MayNot
from penstock.settings import Settings
from tests.running import held_ports
from tests.waiting import eventually
from tools.cluster.processes import tied


@dataclass
class Role:
    """A role that runs."""

    process: subprocess.Popen[str]
    health: str
    data_dir: Path
    lines: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self.health}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""


def start(role: str, data_dir: Path, *flags: str) -> Role:
    (port,) = held_ports(1)
    command = [sys.executable, "-m", "penstock.cli", role, "--data-dir", str(data_dir), "--health-port", str(port)]
    with tied([*command, *flags]) as (tied_command, fds):
        process = subprocess.Popen(
            tied_command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=fds
        )
    started = Role(process, f"http://127.0.0.1:{port}", data_dir)

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as output:
            started.lines.extend(output)

    threading.Thread(target=read, daemon=True).start()
    return started


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Role]:
    role = start("apiserver", tmp_path_factory.mktemp("role"), "--api-port", "0")
    eventually(lambda: role.answer("/readyz") == (200, "ok\n"), 120)
    yield role
    role.process.terminate()
    role.process.wait(60)


def test_a_role_is_probed_and_logs_json_lines(apiserver: Role) -> None:
    assert apiserver.answer("/livez") == (200, "ok\n")
    assert apiserver.answer("/metrics")[0] == 200
    assert apiserver.answer("/other")[0] == 404
    assert {json.loads(line)["component"] for line in apiserver.lines} == {"apiserver"}
    second = start("apiserver", apiserver.data_dir, "--api-port", "0")
    assert second.process.wait(60) == 1
    assert eventually(lambda: [line for line in second.lines if "Another apiserver runs on the data folder" in line])


def test_a_role_whose_kafka_never_answers_ends_and_says_what_to_look_at(tmp_path: Path) -> None:
    role = start("ingress", tmp_path, "--kafka", "127.0.0.1:1", "--set", "kafka_wait_seconds=0", "--port", "0")
    assert role.process.wait(120) == 1
    assert eventually(lambda: [line for line in role.lines if "Check `kafka`, `kafka_conf`" in line])


def test_a_role_that_waits_for_kafka_is_not_ready_and_stops_when_told(tmp_path: Path) -> None:
    role = start("ingress", tmp_path, "--kafka", "127.0.0.1:1", "--port", "0")
    eventually(lambda: role.answer("/readyz") == (503, "Kafka at 127.0.0.1:1 does not respond\n"), 120)
    assert role.answer("/livez")[0] == 200
    role.process.send_signal(signal.SIGTERM)
    assert role.process.wait(60) == 0


class Holder:
    """One that claims the role of control by a Lease."""

    def __init__(self, apiserver: Role, name: str, **settings: str) -> None:
        self.has, self.lost, self.failed = threading.Event(), threading.Event(), list[BaseException]()
        given = Settings(kafka="k:1", kubeconfig=apiserver.data_dir / "kubeconfig", **settings)  # type: ignore[arg-type]
        self.claim = LeaseClaim(
            given,
            "control",
            name,
            taken=self.has.set,
            lost=lambda why: self.lost.set(),
            failed=self.failed.append,
        )
        self.claim.start()


def test_a_lease_has_one_holder_and_is_had_at_once_when_it_is_given_back(apiserver: Role) -> None:
    first = Holder(apiserver, "first")
    assert first.has.wait(60)
    second = Holder(apiserver, "second")
    assert not second.has.wait(3)
    first.claim.release()
    assert second.has.wait(60)
    assert not first.lost.is_set()
    second.claim.release()


def test_a_lease_that_is_not_renewed_is_taken_and_its_holder_hears_of_it(
    apiserver: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 2)
    monkeypatch.setattr(lease, "RENEW_DEADLINE_SECONDS", 60.0)  # so that the Lease says so, not its clock
    first = Holder(apiserver, "first")
    assert first.has.wait(60)
    holding = threading.Event()
    monkeypatch.setattr(first.claim, "_renew", lambda held: holding.wait())  # frozen
    second = Holder(apiserver, "second")
    assert second.has.wait(60)
    monkeypatch.undo()
    holding.set()
    assert first.lost.wait(60)
    second.claim.release()


def test_one_that_cannot_renew_gives_up_by_its_own_clock(apiserver: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_DEADLINE_SECONDS", 1.0)
    holder = Holder(apiserver, "third")
    assert holder.has.wait(60)
    hangs = threading.Event()
    monkeypatch.setattr(holder.claim, "_renew", lambda held: hangs.wait())
    assert holder.lost.wait(60)
    hangs.set()


def test_a_namespace_that_is_not_there_is_named(apiserver: Role) -> None:
    holder = Holder(apiserver, "fourth", lease_namespace="nowhere")
    error = eventually(lambda: holder.failed, 60)[0]
    assert isinstance(error, MayNot)
    assert "nowhere/penstock-control" in str(error)
    assert "lease_namespace" in str(error)
