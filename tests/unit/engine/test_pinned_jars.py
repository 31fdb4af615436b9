"""A folder of jars is used only while every file has the bytes that were pinned."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock.engine.jars import ivy, jar_cache, pinned_jars
from penstock.settings import Settings

NAMES = ("kafka/kafka_2.13.jar", "spark/connector.jar")
SUMS = {name: hashlib.sha256(name.encode()).hexdigest() for name in NAMES}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    pinned_jars.record_verified(tmp_path, SUMS)
    return tmp_path


def wrong(folder: Path, every_byte: bool = False) -> list[str]:
    return [str(one) for one in pinned_jars.differences(folder, SUMS, every_byte=every_byte)]


@pytest.mark.parametrize("every_byte", [False, True])
def test_an_untouched_folder_is_as_it_should_be(folder: Path, every_byte: bool) -> None:
    assert wrong(folder, every_byte) == []


@pytest.mark.parametrize("content", [b"other bytes", b"spark/connector.JAR"])
def test_a_changed_file_is_found_and_both_sums_are_told(folder: Path, content: bytes) -> None:
    (folder / "spark/connector.jar").write_bytes(content)
    [found] = pinned_jars.differences(folder, SUMS, every_byte=False)
    assert str(found) == "spark/connector.jar has changed"
    assert SUMS["spark/connector.jar"] in found.sums
    assert hashlib.sha256(content).hexdigest() in found.sums


def test_missing_and_surplus_files_are_found(folder: Path) -> None:
    (folder / "kafka/kafka_2.13.jar").unlink()
    (folder / "kafka/stranger.jar").write_bytes(b"?")
    assert wrong(folder) == ["kafka/kafka_2.13.jar is missing", "kafka/stranger.jar does not belong"]


def test_a_file_that_was_touched_is_read_again_and_noted_again(folder: Path) -> None:
    os.utime(folder / "spark/connector.jar", (1, 1))
    note = (folder / pinned_jars.VERIFIED_FILE).read_bytes()
    assert wrong(folder) == []
    pinned_jars.record_verified(folder, SUMS)
    assert (folder / pinned_jars.VERIFIED_FILE).read_bytes() != note


def test_only_reading_every_byte_finds_what_left_length_and_time_as_they_were(folder: Path) -> None:
    path = folder / "spark/connector.jar"
    before = path.stat()
    path.write_bytes(path.read_bytes().swapcase())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (wrong(folder), wrong(folder, every_byte=True)) == ([], ["spark/connector.jar has changed"])


def test_a_note_counts_only_for_the_sum_that_is_pinned_now(folder: Path) -> None:
    newer = {**SUMS, "spark/connector.jar": "0" * 64}
    assert [str(one) for one in pinned_jars.differences(folder, newer, every_byte=False)] == [
        "spark/connector.jar has changed"
    ]


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"spark/connector.jar": 1}'])
def test_a_note_that_cannot_be_read_costs_time_and_nothing_else(folder: Path, note: bytes) -> None:
    (folder / pinned_jars.VERIFIED_FILE).write_bytes(note)
    assert wrong(folder) == []
    (folder / "spark/connector.jar").write_bytes(b"other bytes")
    assert wrong(folder) == ["spark/connector.jar has changed"]


def test_an_empty_cache_lacks_everything(tmp_path: Path) -> None:
    assert wrong(tmp_path / "nothing") == [f"{name} is missing" for name in NAMES]


@pytest.mark.parametrize("wanted", [ivy.PIPELINE, ivy.HISTORY], ids=lambda wanted: wanted.file)
def test_everything_that_is_asked_for_is_pinned(wanted: ivy.JarSet) -> None:
    pinned = pinned_jars.pinned(wanted.file)
    known = {(jar.organisation, jar.name, jar.version) for jar in pinned}
    for asked in ElementTree.fromstring(wanted.text).iter("dependency"):
        assert (asked.get("org"), asked.get("name"), asked.get("rev")) in known
    for jar in pinned:
        assert re.fullmatch("[0-9a-f]{64}", jar.sha256), jar
        assert jar.file.partition("/")[0] in wanted.configurations
        assert jar.file.endswith(f"/{jar.name}-{jar.version}.jar")
    assert len(pinned_jars.sums(pinned)) == len(pinned)


def test_the_cache_follows_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jar_cache.folder(Settings()).is_relative_to(tmp_path / "penstock")
    assert jar_cache.folder(Settings(cache_dir=tmp_path / "mine")).is_relative_to(tmp_path / "mine")


def test_proxies_are_handed_to_java(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert list(ivy._proxies()) == ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"]
