"""On a whole stack: the console shows what is there and changes it, for users who may and for its own pages only."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.running import Stack
from tests.waiting import eventually

NAMESPACE = "console"
TRIGGER = f"/routes/trigger/{NAMESPACE}/seen"


@pytest.fixture(scope="module", autouse=True)
def route(stack: Stack) -> None:
    stack.kubectl("create", "namespace", NAMESPACE)
    for line in (["broker"], ["trigger", "seen", "--subscriber", "http://127.0.0.1:9/"]):
        stack.penstock("create", *line, "--namespace", NAMESPACE)
    eventually(lambda: Browser(stack).answered("/healthz")[0] == 200, 180)


@pytest.fixture(scope="module")
def operator(stack: Stack, route: None) -> Browser:
    """A browser with the session of the administrator."""
    return Browser(stack).signed_in("--no-browser")


class Browser:
    """Asks the console as a browser does, and keeps its cookies."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self.url = stack, stack.settings.console_url.rstrip("/")
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())

    def open(self, path: str, fields: dict[str, str] | None = None, **headers: str) -> Any:
        """The answer to a page or form that is followed to its end. Raises HTTPError."""
        data = None if fields is None else urlencode(fields).encode()
        request = urllib.request.Request(self.url + path, data, {"accept": "text/html"})
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        return self._opener.open(request, timeout=60)

    def answered(self, path: str, fields: dict[str, str] | None = None, **headers: str) -> tuple[int, str]:
        """Status and text."""
        try:
            with self.open(path, fields, **headers) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError:
            return 0, ""

    def follow(self, link: str) -> tuple[int, str]:
        """What a link to sign in leads to."""
        path = link.removeprefix(self.url)
        status, page = self.answered(path)
        return self.answered(path, {"to": "/"}, origin=self.url) if status == 200 else (status, page)

    def signed_in(self, *flags: str) -> Browser:
        """The browser with a session, by a link."""
        assert self.follow(self._stack.penstock("open", *flags).strip())[0] in (200, 403)
        return self


def test_the_map_shows_the_route_and_leads_to_its_page(stack: Stack, operator: Browser) -> None:
    assert any(stack.settings.console_url in line for line in stack.output), "the ready message links it"
    eventually(lambda: f'href="{TRIGGER}"' in operator.answered("/")[1], 120)
    status, page = operator.answered(TRIGGER)
    assert status == 200
    assert "kind: Trigger" in page
    status, page = operator.answered("/stack")
    assert status == 200
    assert "pipeline" in page


def test_numbers_come_as_a_stream(operator: Browser) -> None:
    with operator.open("/live/numbers") as stream:
        first = next(line for line in stream if line.startswith(b"data: "))
    message = json.loads(first.removeprefix(b"data: "))
    assert message["problem"] is None
    assert set(message) == {"at", "changed", "gone", "problem"}


def test_a_route_is_paused_from_its_page_and_from_nowhere_else(stack: Stack, operator: Browser) -> None:
    assert operator.answered(f"{TRIGGER}/pause", {}, origin="http://evil.example")[0] == 403
    assert operator.answered("/", host="evil.example")[0] == 421
    assert paused(stack) == ""
    assert operator.answered(f"{TRIGGER}/pause", {}, origin=operator.url)[0] == 200, "the page that shows it"
    assert paused(stack) == "true"
    assert operator.answered(f"{TRIGGER}/resume", {}, origin=operator.url)[0] == 200
    assert paused(stack) == ""


def test_a_replay_is_made_and_its_progress_shown(operator: Browser) -> None:
    wishes = {"since": "1h", "dry_run": "on"}
    assert operator.answered(f"{TRIGGER}/replay", wishes, origin=operator.url)[0] == 200
    eventually(lambda: "0 found: done" in operator.answered(f"{TRIGGER}/replays")[1], 180)


def test_a_process_of_this_machine_sees_nothing_without_a_token(stack: Stack) -> None:
    for path in ("/", "/routes", "/events", "/stack", TRIGGER):
        status, page = Browser(stack).answered(path)
        assert (status, "Sign in" in page, "kind: Trigger" in page) == (200, True, False), path
    assert Browser(stack).answered("/live/events", accept="text/event-stream")[0] == 401
    assert Browser(stack).answered(f"{TRIGGER}/pause", {}, origin=Browser(stack).url)[0] == 401
    assert paused(stack) == ""


def test_a_link_is_followed_once_and_stands_in_no_log(stack: Stack) -> None:
    link = stack.penstock("open", "stack", "--no-browser").strip()
    assert link.endswith("?to=%2Fstack")
    assert Browser(stack).follow(link)[0] == 200
    assert Browser(stack).follow(link)[0] == 410
    code = urlsplit(link).path.rpartition("/")[2]
    logs = [*stack.settings.data_dir.rglob("*.log"), *(stack.settings.data_dir / "run").iterdir()]
    assert not [file for file in logs if file.is_file() and code.encode() in file.read_bytes()]
    assert not [line for line in stack.output if "/login/links/" in line], "what is printed here may be a log"


def test_a_user_of_one_namespace_sees_that_and_no_events(stack: Stack, tmp_path: Path) -> None:
    stack.kubectl("create", "serviceaccount", "dev", "-n", NAMESPACE)
    bound = ("--clusterrole=admin", f"--serviceaccount={NAMESPACE}:dev")
    stack.kubectl("create", "rolebinding", "dev", *bound, "-n", NAMESPACE)
    file = tmp_path / "token"
    file.write_text(stack.kubectl("create", "token", "dev", "-n", NAMESPACE))
    dev = Browser(stack).signed_in("--no-browser", "--token", f"@{file}")
    assert dev.answered(TRIGGER)[0] == 200
    for path in ("/", "/routes", "/events", "/stack", "/live/events", "/live/numbers", "/deadletters"):
        assert dev.answered(path)[0] == 403, path


@pytest.mark.long
def test_a_stream_ends_when_the_token_of_its_session_is_revoked(stack: Stack, tmp_path: Path) -> None:
    stack.kubectl("create", "clusterrolebinding", "jane", "--clusterrole=cluster-admin", "--user=jane")
    kubeconfig = tmp_path / "jane"
    stack.penstock("kubeconfig", "--as", "jane", "--output", str(kubeconfig))
    jane = Browser(stack).signed_in("--no-browser", "--kubeconfig", str(kubeconfig))
    with jane.open("/live/events") as stream:
        assert b"begun" in next(line for line in stream if line.startswith(b"data: "))
        stack.penstock("kubeconfig", "--revoke", "jane")
        began = time.monotonic()
        stream.read()
    assert time.monotonic() - began < 60
    assert "Sign in" in jane.answered("/stack")[1]


def paused(stack: Stack) -> str:
    path = r"jsonpath={.metadata.annotations.penstock\.dev/paused}"
    return stack.kubectl("-n", NAMESPACE, "get", "trigger", "seen", "-o", path)
