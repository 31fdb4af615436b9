"""Listening beyond this machine is said in so many words, or somebody asks who sends."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from penstock.engine import exposure_check
from penstock.runtime.errors import UserError
from penstock.settings import Settings


def database(folder: Path, **features: str) -> None:
    """An API that was left with these features."""
    with sqlite3.connect(folder / "api.db") as connection:
        connection.execute("CREATE TABLE objects (resource, namespace, name, body)")
        body = json.dumps({"data": {name.replace("_", "-"): value for name, value in features.items()}}).encode()
        row = ("configmaps", "knative-eventing", "config-features", body)
        connection.execute("INSERT INTO objects VALUES (?, ?, ?, ?)", row)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_this_machine_may_always_send(tmp_path: Path, host: str) -> None:
    exposure_check.check(Settings(data_dir=tmp_path, host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "box.example"])
def test_others_may_not_unless_it_is_said(tmp_path: Path, host: str) -> None:
    with pytest.raises(UserError, match="accept events from anyone") as problem:
        exposure_check.check(Settings(data_dir=tmp_path, host=host))
    assert "--insecure-open" in problem.value.remedy
    exposure_check.check(Settings(data_dir=tmp_path, host=host, insecure_open=True))


@pytest.mark.parametrize(("value", "may"), [("enabled", True), ("Enabled ", True), ("disabled", False)])
def test_others_may_where_they_are_asked_who_they_are(tmp_path: Path, value: str, may: bool) -> None:
    database(tmp_path, authentication_oidc=value)
    settings = Settings(data_dir=tmp_path, host="10.1.2.3")
    if may:
        exposure_check.check(settings)
        return
    with pytest.raises(UserError, match=r"10\.1\.2\.3"):
        exposure_check.check(settings)


def test_an_api_that_cannot_be_read_promises_nothing(tmp_path: Path) -> None:
    (tmp_path / "api.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(UserError, match=r"10\.1\.2\.3"):
        exposure_check.check(Settings(data_dir=tmp_path, host="10.1.2.3"))
