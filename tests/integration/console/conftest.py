"""A browser in front of the console of the shared stack. Without Chromium nothing here is collected: see browser.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from console_journey import Journey

import browser
from running import Stack

collect_ignore_glob = [] if browser.is_here() else ["test_*.py"]


@pytest.fixture(scope="module")
def journey(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    """A browser, one for all journeys."""
    driver = browser.start(tmp_path_factory.mktemp("browser"))
    try:
        yield Journey(driver, stack)
    finally:
        driver.quit()
