"""A folder of jars is trusted only while it is exactly what was fetched."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from penstock.engine import jars
from penstock.settings import Settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sums = {}
    for name in ("kafka/kafka_2.13.jar", "spark/connector.jar"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name.encode())
        sums[name] = hashlib.sha256(name.encode()).hexdigest()
    (tmp_path / jars.MANIFEST).write_text(json.dumps({"sha256": sums}))
    return tmp_path


def test_an_untouched_folder_has_no_damage(folder: Path) -> None:
    assert jars.damage(folder) == []


def test_a_changed_file_is_found(folder: Path) -> None:
    (folder / "spark/connector.jar").write_bytes(b"other bytes")
    assert jars.damage(folder) == ["spark/connector.jar has changed"]


def test_a_missing_file_is_found(folder: Path) -> None:
    (folder / "kafka/kafka_2.13.jar").unlink()
    assert jars.damage(folder) == ["kafka/kafka_2.13.jar is missing"]


def test_a_surplus_file_is_found(folder: Path) -> None:
    (folder / "kafka/stranger.jar").write_bytes(b"?")
    assert jars.damage(folder) == ["kafka/stranger.jar does not belong"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"other": {}}'])
def test_an_unreadable_manifest_is_damage(folder: Path, content: bytes) -> None:
    (folder / jars.MANIFEST).write_bytes(content)
    assert jars.damage(folder) == ["the manifest cannot be read"]


def test_an_empty_cache_is_damage(tmp_path: Path) -> None:
    assert jars.damage(tmp_path / "nothing") == ["no manifest"]


def test_the_cache_follows_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jars.folder(Settings()).is_relative_to(tmp_path / "penstock")
    assert jars.folder(Settings(cache_dir=tmp_path / "mine")).is_relative_to(tmp_path / "mine")


def test_proxies_are_handed_to_java(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert list(jars._proxies()) == ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"]
