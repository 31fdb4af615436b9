"""Licences: how they are read, which are allowed, and that those of all dependencies are."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engine.jars import pinned_jars
from tools.dependencies import licences, page
from tools.dependencies.packages import Package, installed, shipped

PAGE = Path(__file__).parents[3] / "docs" / "licences.md"


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("MIT AND (Apache-2.0 OR GPL-2.0-only)", True),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("SSPL-1.0", False),
        ("", False),
        ("Proprietary, ask us", False),
        (licences.UNKNOWN, False),
    ],
)
def test_what_is_allowed(expression: str, allowed: bool) -> None:
    assert licences.is_allowed(expression) is allowed


@pytest.mark.parametrize(
    ("expression", "text", "classifiers", "licence"),
    [
        ("MIT OR Apache-2.0", "Apache", [], "MIT OR Apache-2.0"),
        (None, "MIT", [], "MIT"),
        (None, "The MIT License (MIT)", [], "MIT"),
        (None, "Apache License\nVersion 2.0, January 2004\n…", [], "Apache-2.0"),
        (None, None, ["License :: OSI Approved :: MIT License"], "MIT"),
        (None, "", ["License :: OSI Approved :: ISC License (ISCL)", "Typing :: Typed"], "ISC"),
        (None, "Own words", ["License :: OSI Approved :: MIT License"], "MIT"),
        (None, None, ["License :: OSI Approved :: MIT License", "License :: OSI Approved :: X"], licences.UNKNOWN),
        (None, None, ["License :: OSI Approved :: BSD License"], licences.UNKNOWN),
        (None, None, [], licences.UNKNOWN),
    ],
)
def test_what_metadata_say(expression: str | None, text: str | None, classifiers: list[str], licence: str) -> None:
    found = licences.of_package("some-package", expression=expression, text=text, classifiers=classifiers)
    assert found == licence


def test_a_jar_may_leave_a_choice() -> None:
    assert licences.of_jar(["The MIT License", "Eclipse"]) == f"MIT OR {licences.UNKNOWN}"
    assert licences.of_jar([]) == licences.UNKNOWN


def refused(packages: list[Package]) -> list[str]:
    return [f"{one.name} {one.version}: {one.licence}" for one in packages if not licences.is_allowed(one.licence)]


def test_a_dependency_under_another_licence_would_be_named() -> None:
    assert refused([Package("fine", "1", "MIT"), Package("viral", "2", "AGPL-3.0-only")]) == ["viral 2: AGPL-3.0-only"]


def test_every_package_here_is_under_a_licence_that_is_allowed() -> None:
    packages = installed()
    assert len(packages) > 100
    assert refused(packages) == [], "read the licence; allow it in tools/dependencies/licences.py, or do without"


def test_every_jar_is_under_a_licence_that_is_allowed() -> None:
    jars = [Package(jar.name, jar.version, licences.of_jar(jar.licences)) for jar in pinned_jars.every()]
    assert len(jars) > 40
    assert refused(jars) == []


def test_the_page_has_everything_that_is_installed_with_penstock() -> None:
    lines = PAGE.read_text().splitlines()
    # A newer Python or another system may need less than the one the page was written on.
    rows = [page.package_row(one) for one in shipped()[1:]] + [page.jar_row(jar) for jar in pinned_jars.every()]
    assert [row for row in rows if row not in lines] == [], "make docs writes the page"
