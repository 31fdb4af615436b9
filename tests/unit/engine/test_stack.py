"""What a stack consists of follows from the settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.cli.terminal import StackScreen
from penstock.engine import stack
from penstock.engine.datadir import DataDir, read_stack
from penstock.engine.jars.jar_cache import Jars
from penstock.engine.java import Java
from penstock.engine.processes.supervisor import Component
from penstock.settings import Settings

JAVA = Java(Path("/opt/java/bin/java"), "17.0.1", 17)


def composed(settings: Settings) -> dict[str, Component]:
    place = Path("/data")
    prepared = stack.Prepared(settings, place / "settings.json", DataDir(place), Jars(place), JAVA)
    return {component.name: component for component in stack.components(prepared)}


def test_the_embedded_stack_has_everything() -> None:
    assert list(composed(Settings())) == ["kafka", "apiserver", "ingress", "control", "pipeline", "console"]
    assert "console" not in composed(Settings(console=False))


def test_a_given_kafka_and_a_given_cluster_are_not_started() -> None:
    parts = composed(Settings(kafka="k:9092", kubeconfig=Path("config")))
    assert list(parts) == ["ingress", "control", "pipeline", "console"]
    assert not [need for part in parts.values() for need in part.needs]


def test_several_ingress_processes_share_the_port() -> None:
    assert [name for name in composed(Settings(ingress_processes=2)) if name.startswith("ingress")] == [
        "ingress-1",
        "ingress-2",
    ]


def test_the_pipeline_stops_before_those_its_deliveries_need() -> None:
    parts = composed(Settings())
    assert parts["pipeline"].stage > parts["ingress"].stage == parts["control"].stage > parts["kafka"].stage


def test_children_see_the_settings_file_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PENSTOCK_PORT", "1")
    env = stack.environment(Settings(data_dir=Path("/data")), JAVA)
    assert "PENSTOCK_PORT" not in env
    assert env["PROMETHEUS_MULTIPROC_DIR"] == "/data/metrics"
    assert env["PYTHONSAFEPATH"] == "1", "a file of the user could take the place of a module"
    assert "PROMETHEUS_MULTIPROC_DIR" not in stack.environment(Settings(metrics=False), JAVA)


def test_a_record_that_cannot_be_written_is_told_once_and_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk is no reason to end what runs. The folder is missing here, which the file notices likewise."""
    data = DataDir(tmp_path)
    record = stack.StackRecord(data, Settings(data_dir=tmp_path), StackScreen())
    record.write("starting")
    record.write("ready")
    told = capsys.readouterr().out
    assert told.count("Cannot write the state for penstock status") == 1
    (tmp_path / "run").mkdir()
    record.write()
    written = read_stack(tmp_path)
    assert written is not None
    assert written["state"] == "ready"
