"""Which Java is taken, and what is said when none can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engine import java
from penstock.runtime.errors import UserError


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', ("17.0.15", 17)),
        ('openjdk version "21" 2023-09-19', ("21", 21)),
        ('java version "1.8.0_392"', ("1.8.0_392", 8)),
        ('openjdk version "25-ea" 2025-09-16', ("25-ea", 25)),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ('version "unknown"', None),
    ],
)
def test_the_version_is_read_from_what_java_prints(printed: str, expected: tuple[str, int] | None) -> None:
    assert java.parse_version(printed) == expected


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, path = _install(tmp_path / "home", "21.0.2"), _install(tmp_path / "path", "17.0.1")
    found = java.find_java({"JAVA_HOME": str(home), "PATH": str(path / "bin")})
    assert (found.major, found.home) == (21, home)


def test_an_unsupported_java_home_is_passed_over(tmp_path: Path) -> None:
    home, path = _install(tmp_path / "home", "11.0.2"), _install(tmp_path / "path", "17.0.1")
    assert java.find_java({"JAVA_HOME": str(home), "PATH": str(path / "bin")}).major == 17


def test_the_problem_names_what_was_found_what_is_needed_and_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _only_in(monkeypatch)
    home = _install(tmp_path / "home", "1.8.0_392")
    with pytest.raises(UserError) as raised:
        java.find_java({"JAVA_HOME": str(home), "PATH": "", "HOME": str(tmp_path)})
    assert "needs Java 17 or 21" in raised.value.what
    assert "1.8.0_392" in raised.value.what
    assert "apt install" in raised.value.remedy


def test_a_runtime_that_lacks_what_spark_needs_is_passed_over_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _only_in(monkeypatch)
    small, whole = _install(tmp_path / "small", "21.0.8", "exit $#"), _install(tmp_path / "whole", "17.0.1")
    assert java.find_java({"JAVA_HOME": str(small), "PATH": str(whole / "bin")}).home == whole
    with pytest.raises(UserError, match=r"Java 21\.0\.8 .* without the module jdk\.incubator\.vector"):
        java.find_java({"JAVA_HOME": str(small), "PATH": "", "HOME": str(tmp_path)})


def test_no_java_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _only_in(monkeypatch)
    with pytest.raises(UserError, match="found no Java"):
        java.find_java({"PATH": str(tmp_path), "HOME": str(tmp_path)})


def _install(home: Path, version: str, end: str = "") -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n{end}\n")
    program.chmod(0o755)
    return home


def _only_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the Java of this machine."""
    monkeypatch.setattr(java, "_FOLDERS", ())
    monkeypatch.setattr(java, "_FOLDERS_MAC", ())
