"""A browser in front of a console. Without Chromium nothing here is collected: see tests/browser.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import browser
from tests.console_journey import Journey, Subscriber
from tests.integration.console.served_console import ServedConsole

collect_ignore_glob = [] if browser.is_here() else ["test_*.py"]


@pytest.fixture(scope="module")
def subscriber() -> Iterator[Subscriber]:
    """Who takes what is sent to the Broker."""
    one = Subscriber()
    yield one
    one.close()


@pytest.fixture(scope="module")
def console(subscriber: Subscriber, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    """A console, one for all journeys."""
    served = ServedConsole(tmp_path_factory.mktemp("console"), subscriber.url)
    yield served
    served.close()


@pytest.fixture(scope="module")
def journey(console: ServedConsole, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    """A browser, one for all journeys."""
    driver = browser.start(tmp_path_factory.mktemp("browser"))
    try:
        journey = Journey(driver, console.url)
        journey.sign_in(console.login)
        yield journey
    finally:
        driver.quit()
