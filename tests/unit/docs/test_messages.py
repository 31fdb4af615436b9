"""The page of error messages has those of the code."""

from __future__ import annotations

from pathlib import Path

from tools import messages

PAGE = Path(__file__).parents[3] / "docs" / "messages.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == messages.page(), "run `make docs`"


def test_messages_of_commands_start_and_api_are_on_the_page() -> None:
    page = messages.page()
    assert "| No stack is running. |" in page
    assert "| penstock needs Java 17 or 21 and found no Java. |" in page
    assert "the server could not find the requested resource (404)" in page
