"""On a whole stack: the console shows what is there and changes it, for its own pages only."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from urllib.parse import urlencode, urlsplit

import pytest

from running import Stack, eventually

NAMESPACE = "console"
TRIGGER = f"/routes/trigger/{NAMESPACE}/seen"


@pytest.fixture(scope="module", autouse=True)
def route(stack: Stack) -> None:
    stack.kubectl("create", "namespace", NAMESPACE)
    for line in (["broker"], ["trigger", "seen", "--subscriber", "http://127.0.0.1:9/"]):
        stack.penstock("create", *line, "--namespace", NAMESPACE)
    eventually(lambda: answered(stack, "/healthz")[0] == 200, 180)


def answered(stack: Stack, path: str, fields: dict[str, str] | None = None, **headers: str) -> tuple[int, str]:
    """Status and text of a page, or of what a form is answered with."""
    data = None if fields is None else urlencode(fields).encode()
    request = urllib.request.Request(stack.settings.console_url.rstrip("/") + path, data, {"accept": "text/html"})
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, ""


def test_the_map_shows_the_route_and_leads_to_its_page(stack: Stack) -> None:
    assert any(stack.settings.console_url in line for line in stack.output), "the ready message links it"
    eventually(lambda: f'href="{TRIGGER}"' in answered(stack, "/")[1], 120)
    status, page = answered(stack, TRIGGER)
    assert status == 200
    assert "kind: Trigger" in page
    status, page = answered(stack, "/stack")
    assert status == 200
    assert "pipeline" in page


def test_numbers_come_as_a_stream(stack: Stack) -> None:
    with urllib.request.urlopen(f"{stack.settings.console_url}live/numbers", timeout=60) as stream:
        first = next(line for line in stream if line.startswith(b"data: "))
    message = json.loads(first.removeprefix(b"data: "))
    assert message["problem"] is None
    assert set(message) == {"at", "changed", "gone", "problem"}


def test_a_route_is_paused_from_its_page_and_from_nowhere_else(stack: Stack) -> None:
    own = f"http://{urlsplit(stack.settings.console_url).netloc}"
    assert answered(stack, f"{TRIGGER}/pause", {}, origin="http://evil.example")[0] == 403
    assert answered(stack, "/", host="evil.example")[0] == 421
    assert paused(stack) == ""
    assert answered(stack, f"{TRIGGER}/pause", {}, origin=own)[0] == 200, "the page that shows it"
    assert paused(stack) == "true"
    assert answered(stack, f"{TRIGGER}/resume", {}, origin=own)[0] == 200
    assert paused(stack) == ""


def test_a_replay_is_made_and_its_progress_shown(stack: Stack) -> None:
    own = f"http://{urlsplit(stack.settings.console_url).netloc}"
    wishes = {"since": "1h", "dry_run": "on"}
    assert answered(stack, f"{TRIGGER}/replay", wishes, origin=own)[0] == 200
    eventually(lambda: "0 counted: done" in answered(stack, f"{TRIGGER}/replays")[1], 180)


def paused(stack: Stack) -> str:
    path = r"jsonpath={.metadata.annotations.penstock\.dev/paused}"
    return stack.kubectl("-n", NAMESPACE, "get", "trigger", "seen", "-o", path)
