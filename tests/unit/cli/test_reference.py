"""The settings page says what the settings are."""

from __future__ import annotations

from pathlib import Path

from penstock.cli import reference
from penstock.settings import Settings

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == reference.page(), "run `make docs`"


def test_every_setting_is_on_the_page() -> None:
    assert all(f"| `{name}` |" in reference.page() for name in Settings.model_fields)
