"""What a person does in a browser: opens a page, reads, types, presses. And a subscriber that can be down."""

from __future__ import annotations

import base64
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from running import Stack, eventually

SECONDS = 120.0
PHOTOGRAPHS = "PHOTOGRAPHS"
"""Variable with the folder that photographs of the pages go to; without it none are taken."""


class Journey:
    """A browser in front of the console. What is asked for is waited for."""

    def __init__(self, driver: WebDriver, stack: Stack) -> None:
        self.driver, self.stack = driver, stack
        self.base = stack.settings.console_url.rstrip("/")

    def open(self, path: str) -> None:
        """Goes to a page."""
        self.driver.get(self.base + path)

    def text(self) -> str:
        """What the page shows."""
        return self.driver.find_element(By.TAG_NAME, "body").text

    def reads(self, words: str, reload: bool = False) -> None:
        """Waits until the page shows these words."""

        def look() -> bool:
            if words.lower() in self.text().lower():
                return True
            if reload:
                self.driver.refresh()
            return False

        eventually(lambda: _steady(look), SECONDS, every=1.0 if reload else 0.2)

    def find(self, selector: str) -> WebElement:
        """The first element of a CSS selector."""

        def look() -> WebElement | None:
            found = self.driver.find_elements(By.CSS_SELECTOR, selector)
            return found[0] if found else None

        element: WebElement = eventually(look, SECONDS)
        return element

    def press(self, selector: str) -> None:
        """Clicks."""
        element = self.find(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def fill(self, selector: str, text: str) -> None:
        """Types in place of what is there."""
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def choose(self, selector: str, label: str) -> None:
        """Takes an entry of a list."""
        Select(self.find(selector)).select_by_visible_text(label)

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


def _steady(look: Any) -> bool:
    """A page that is being replaced is looked at again."""
    try:
        return bool(look())
    except StaleElementReferenceException:
        return False


class Subscriber:
    """An HTTP server that answers as it is told to, and counts the events that it took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._status = 202
        self._taken: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(outer.take(str(self.headers.get("ce-id"))))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, status: int) -> None:
        """From now on."""
        with self._lock:
            self._status = status

    def take(self, ident: str) -> int:
        """An event that came."""
        with self._lock:
            if self._status < 300:
                self._taken.append(ident)
            return self._status

    @property
    def taken(self) -> list[str]:
        """Ids of the events that it accepted."""
        with self._lock:
            return list(self._taken)

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()


def manifest(kind: str, name: str, namespace: str, spec: dict[str, Any]) -> str:
    """An object of eventing.knative.dev as YAML (JSON is YAML)."""
    version = "eventing.knative.dev/v1"
    return json.dumps(
        {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    )
