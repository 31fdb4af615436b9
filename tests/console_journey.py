"""What a person does in a browser: opens a page, reads, types, presses. And a subscriber."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from tests.waiting import eventually

SECONDS = 120.0
PHOTOGRAPHS = "PHOTOGRAPHS"
"""Variable with the folder that photographs of the pages go to; without it none are taken."""
NOT_YET = (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
)
"""What a page that is being drawn, or drawn anew, is to blame for."""


class Journey:
    """A browser in front of the console. What is asked for is waited for."""

    def __init__(self, driver: WebDriver, url: str) -> None:
        self.driver, self._url = driver, url

    def open(self, path: str) -> None:
        """Goes to a page."""
        self.driver.get(self._url + path)

    def sign_in(self, link: str) -> None:
        """Opens a link that signs in, which leads to a page by itself."""
        self.driver.get(link)
        eventually(lambda: "/login" not in self.driver.current_url, SECONDS)

    def text(self) -> str:
        """What the page shows."""
        return self.driver.find_element(By.TAG_NAME, "body").text

    def reads(self, words: str) -> None:
        """Waits until the page shows these words."""
        eventually(lambda: _steady(lambda: words.lower() in self.text().lower()), SECONDS, every=0.2)

    def find(self, selector: str) -> WebElement:
        """The first element of a CSS selector."""

        def look() -> WebElement | None:
            found = self.driver.find_elements(By.CSS_SELECTOR, selector)
            return found[0] if found else None

        element: WebElement = eventually(look, SECONDS)
        return element

    def text_of(self, selector: str) -> str:
        """What an element shows, or nothing while it is being replaced."""
        shown = ""

        def look() -> bool:
            nonlocal shown
            shown = self.find(selector).text
            return True

        return shown if _steady(look) else ""

    def press(self, selector: str) -> None:
        """Clicks."""

        def done() -> bool:
            element = self.find(selector)
            self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
            element.click()
            return True

        eventually(lambda: _steady(done), SECONDS)

    def fill(self, selector: str, text: str) -> None:
        """Types in place of what is there."""

        def done() -> bool:
            field = self.find(selector)
            field.clear()
            field.send_keys(text)
            return True

        eventually(lambda: _steady(done), SECONDS)

    def choose(self, selector: str, label: str) -> None:
        """Takes an entry of a list."""

        def done() -> bool:
            Select(self.find(selector)).select_by_visible_text(label)
            return True

        eventually(lambda: _steady(done), SECONDS)

    def shows(self, width: int, height: int, dark: bool = False) -> None:
        """How wide the page is, and whether it is dark."""
        self.driver.set_window_size(width, height)
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def photograph(self, name: str) -> None:
        """Keeps a picture of the page for the documentation, where somebody wants them (`make photographs`)."""
        folder = os.environ.get(PHOTOGRAPHS)
        if folder:
            shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"console-{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.driver.execute_script(script))

    def complaints(self) -> list[str]:
        """What the browser did not like: scripts that fail, and what the policy forbids."""
        logs: list[dict[str, Any]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]  # it has none
        return [entry["message"] for entry in logs if entry["level"] == "SEVERE"]


def _steady(look: Callable[[], bool]) -> bool:
    """A page, or a piece of one, that is being replaced is looked at again."""
    try:
        return look()
    except NOT_YET:
        return False


class Subscriber:
    """An HTTP server that takes events, and remembers which."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                outer.take(str(self.headers.get("ce-id")))
                self.send_response(202)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, ident: str) -> None:
        """An event that came."""
        with self._lock:
            self._taken.append(ident)

    @property
    def taken(self) -> list[str]:
        """Ids of the events that it accepted."""
        with self._lock:
            return list(self._taken)

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
