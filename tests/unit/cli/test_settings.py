"""Where settings come from (flags, the environment, penstock.toml, the defaults), and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.operations.settings_sources import load
from penstock.runtime.errors import UserError
from penstock.settings import Settings


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def complaints(*assignments: str, **flags: object) -> list[str]:
    """The lines in which the settings are refused."""
    with pytest.raises(UserError) as raised:
        load(list(assignments), **flags)
    assert raised.value.exit_code == 2
    return raised.value.what.splitlines()


def test_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "penstock.toml").write_text("port = 1001\napi_port = 1002\nkafka_port = 1003\n")
    monkeypatch.setenv("PENSTOCK_PORT", "2001")
    monkeypatch.setenv("PENSTOCK_API_PORT", "2002")
    settings = load(port=3001)
    assert (settings.port, settings.api_port, settings.kafka_port, settings.metrics_port) == (3001, 2002, 1003, 9090)


def test_a_flag_that_is_not_given_leaves_the_others_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PORT", "2001")
    assert load(port=None).port == 2001


def test_what_nobody_set_is_known_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_API_PORT", "8443")
    assert load(port=0).model_fields_set == {"port", "api_port"}


def test_any_setting_can_be_set_by_name() -> None:
    settings = load(["retention_hours=24", "broker_classes=A,B"])
    assert (settings.retention_hours, settings.broker_classes) == (24, ["A", "B"])


@pytest.mark.parametrize("written", ["A,B", " A, B", '["A", "B"]'])
def test_lists_in_the_environment(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BROKER_CLASSES", written)
    assert load().broker_classes == ["A", "B"]


def test_an_empty_variable_means_an_empty_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "penstock.toml").write_text('kafka = "elsewhere:9092"\n')
    monkeypatch.setenv("PENSTOCK_KAFKA", "")
    assert load().kafka is None


def test_only_the_command_reads_the_environment_and_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is broken while a stack runs must not keep its processes from starting again."""
    (tmp_path / "penstock.toml").write_text("port = = 1\n")
    monkeypatch.setenv("PENSTOCK_PORT", "x")
    assert Settings(**Settings(port=7).model_dump(mode="json")).port == 7


def test_a_typo_in_the_environment_is_named_with_what_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PROT", "8081")
    assert complaints() == ["Unknown setting PENSTOCK_PROT; did you mean PENSTOCK_PORT?"]


def test_a_typo_in_the_file_is_named_with_what_was_meant(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("retention_hour = 1\n[jvm]\nheap = 1\n")
    assert complaints() == [
        "Unknown setting retention_hour in penstock.toml; did you mean retention_hours?",
        "Unknown setting jvm in penstock.toml; docs/settings.md lists all settings.",
    ]


def test_a_typo_in_a_flag_is_named_with_what_was_meant() -> None:
    assert complaints("max_inflight=1") == ["Unknown setting --set max_inflight; did you mean max_in_flight?"]


def test_an_assignment_without_a_value_is_refused() -> None:
    assert complaints("verbose") == ["Invalid --set verbose: write NAME=VALUE."]


def test_variables_that_are_no_settings_are_allowed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_INSTANCE", "ingress-1")
    assert load() == Settings()


def test_every_wrong_value_is_a_line_that_says_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "penstock.toml").write_text('port = 8081\nmetrics = "perhaps"\n')
    monkeypatch.setenv("PENSTOCK_PARTITIONS", "four")
    monkeypatch.setenv("PENSTOCK_PROT", "1")
    assert complaints("router_mode=fast", port=70000) == [
        "Unknown setting PENSTOCK_PROT; did you mean PENSTOCK_PORT?",
        "Invalid value 70000 of --port: input should be less than or equal to 65535.",
        "Invalid value 'perhaps' of metrics in penstock.toml: "
        "input should be a valid boolean, unable to interpret input.",
        "Invalid value 'four' of PENSTOCK_PARTITIONS: "
        "input should be a valid integer, unable to parse string as an integer.",
        "Invalid value 'fast' of --set router_mode: input should be 'realtime' or 'microbatch'.",
    ]


def test_a_value_that_another_one_overrides_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PORT", "many")
    assert load(port=1).port == 1


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("port = = 1\n")
    [line] = complaints()
    assert line.startswith("penstock.toml is not valid TOML (name = value): Invalid value (at line 1")


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_bytes(b'host = "\xff"\n')
    [line] = complaints()
    assert line.startswith("penstock.toml is not valid TOML")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").mkdir()
    assert complaints() == ["penstock.toml cannot be read: Is a directory."]


def test_nothing_is_started_with_wrong_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PROT", "1")
    result = CliRunner().invoke(app, ["dev", "--data-dir", str(tmp_path / "data")])
    assert (result.exit_code, (tmp_path / "data").exists()) == (2, False)
    assert result.output == "penstock: Unknown setting PENSTOCK_PROT; did you mean PENSTOCK_PORT?\n"


SECURED = """
[kafka_conf]
security.protocol = "sasl_ssl"
"sasl.mechanisms" = "PLAIN"
sasl.username = "penstock"
sasl.password = { file = "/run/secrets/kafka" }
"""


def test_properties_of_kafka_clients_are_a_table_with_or_without_quotes(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(SECURED)
    assert load().kafka_conf == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "penstock",
        "sasl.password": {"file": "/run/secrets/kafka"},
    }


def test_a_secret_must_not_stand_in_the_list_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = '{"security.protocol": "sasl_ssl", "sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": "hid"}'
    [told] = complaints(f"kafka_conf={conf}")
    assert told.startswith("--set kafka_conf: sasl.password would be visible in the process list")
    monkeypatch.setenv("PENSTOCK_KAFKA_CONF", conf)
    assert load().kafka_conf["sasl.password"] == "hid"


def test_what_is_wrong_with_kafka_conf_is_told_without_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KAFKA_CONF", '{"sasl.password": "hid", "acks": 1}')
    [told] = complaints()
    assert told == "Invalid value of PENSTOCK_KAFKA_CONF: acks is penstock's own and cannot be given."
    monkeypatch.setenv("PENSTOCK_KAFKA_CONF", '{"sasl.password": "hid')
    assert "hid" not in str(complaints())
