"""A real Chromium for the journeys through the console, and how it gets onto this machine.

The browser and its driver are Debian's packages `chromium` and `chromium-driver`, which always fit each other. Where
they are missing, `python tests/browser.py get` installs them if it may (as root, by apt-get); where they cannot be had,
the journeys are left out, and the first and the last lines of `make test` say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

PROGRAMS = ("chromium", "chromedriver")
PACKAGES = ("chromium", "chromium-driver", "fonts-dejavu-core")
APT = ["apt-get", "-o", "DPkg::Lock::Timeout=120", "-qq"]
GET_SECONDS = 300.0
START_SECONDS = 120.0
LEFT_OUT = (
    "LEFT OUT: the journeys through the console need Chromium, which is not on this machine or does not start. "
    "Debian/Ubuntu: apt install chromium chromium-driver"
)


def is_here() -> bool:
    """Whether the journeys can be made: the browser is there, and starts."""
    return all(shutil.which(program) for program in PROGRAMS) and _starts()


@cache
def _starts() -> bool:
    command = [PROGRAMS[0], "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with tempfile.TemporaryDirectory() as profile:
        try:
            ran = subprocess.run(
                [*command, f"--user-data-dir={profile}", "--dump-dom", "about:blank"],
                capture_output=True,
                timeout=START_SECONDS,
                text=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"Chromium did not start within {START_SECONDS:.0f} s.", file=sys.stderr)
            return False
    if ran.returncode != 0 or "<html" not in ran.stdout:
        print(f"Chromium does not start: {ran.stderr.strip()[-500:]}", file=sys.stderr)
        return False
    return True


def get() -> None:
    """Installs the browser where that is possible, and says what it does."""
    if is_here():
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(LEFT_OUT, file=sys.stderr)
        return
    print(f"Chromium is missing: apt-get install {' '.join(PACKAGES)}", file=sys.stderr)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        try:
            ran = subprocess.run(
                [*APT, *command], env=env, timeout=GET_SECONDS, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            print(f"apt-get {command[0]} took longer than {GET_SECONDS:.0f} s.", file=sys.stderr)
            break
        if ran.returncode != 0:
            print(f"apt-get {command[0]} failed: {ran.stderr.strip()[-500:]}", file=sys.stderr)
    if not is_here():
        print(LEFT_OUT, file=sys.stderr)


def start(profile: Path, width: int = 1200, height: int = 900) -> WebDriver:
    """A Chromium without a window, which reaches nothing but this machine."""
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.chrome.webdriver import WebDriver

    options = Options()
    options.binary_location = str(shutil.which(PROGRAMS[0]))
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-proxy-server",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={profile}",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = WebDriver(options, Service(str(shutil.which(PROGRAMS[1]))))
    driver.set_page_load_timeout(120)
    return driver


if __name__ == "__main__":
    if sys.argv[1:] == ["get"]:
        get()
    elif not is_here():
        print(LEFT_OUT, file=sys.stderr)
