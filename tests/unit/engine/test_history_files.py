"""A history is kept by default, and an installation without its packages does without or says what to install."""

from __future__ import annotations

from importlib.machinery import ModuleSpec

import pytest

from penstock.engine.history import scheduler
from penstock.history.reader.tables import HOW_TO_INSTALL
from penstock.runtime.errors import UserError
from penstock.settings import Settings


@pytest.fixture
def without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the extra, as far as anybody can see."""
    monkeypatch.setattr(scheduler, "find_spec", lambda name: None if name == "duckdb" else ModuleSpec(name, None))


def test_with_its_packages_it_is_kept() -> None:
    assert scheduler.without_missing_packages(Settings()) == (Settings(), [])
    assert Settings().history


@pytest.mark.usefixtures("without_duckdb")
def test_by_default_an_installation_without_them_does_without_and_says_so() -> None:
    settings, remarks = scheduler.without_missing_packages(Settings())
    assert not settings.history
    assert remarks == [f"The history of events is not kept: duckdb not installed. {HOW_TO_INSTALL}"]


@pytest.mark.usefixtures("without_duckdb")
def test_who_asked_for_it_is_told_what_to_install() -> None:
    with pytest.raises(UserError, match="duckdb not installed"):
        scheduler.without_missing_packages(Settings(history=True))


@pytest.mark.usefixtures("without_duckdb")
def test_who_wants_none_hears_nothing() -> None:
    assert scheduler.without_missing_packages(Settings(history=False)) == (Settings(history=False), [])
