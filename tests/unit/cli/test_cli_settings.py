"""Where settings come from: flags, then the environment, then penstock.toml, then the defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.options import load
from penstock.engine.problem import Problem


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "penstock.toml").write_text("port = 1001\napi_port = 1002\nkafka_port = 1003\n")
    monkeypatch.setenv("PENSTOCK_PORT", "2001")
    monkeypatch.setenv("PENSTOCK_API_PORT", "2002")
    settings = load(port=3001)
    assert (settings.port, settings.api_port, settings.kafka_port, settings.metrics_port) == (3001, 2002, 1003, 9090)


def test_a_flag_that_is_not_given_leaves_the_others_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PORT", "2001")
    assert load(port=None).port == 2001


def test_any_setting_can_be_set_by_name() -> None:
    settings = load(["retention_hours=24", "broker_classes=A,B"])
    assert (settings.retention_hours, settings.broker_classes) == (24, ["A", "B"])


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Problem) as raised:
        load(["retention=1"])
    assert "retention_hours" in raised.value.remedy


def test_a_wrong_value_names_the_setting_and_the_reason() -> None:
    with pytest.raises(Problem, match="port: Input should be less than or equal to 65535"):
        load(port=70000)


def test_an_unknown_name_in_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("prot = 1\n")
    with pytest.raises(Problem, match="prot"):
        load()


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("port = = 1\n")
    with pytest.raises(Problem, match=r"penstock\.toml cannot be read"):
        load()
