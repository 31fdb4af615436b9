"""The last version and this one take turns on one data folder, with events waiting in every way there is."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import wheels
from tests.running import Stack, start_stack, stop_process
from tests.subscribers import Subscribers, listening
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]

LAST_VERSION = "a5d92a5b8239718ebf23a3113832ea2300b0e215"
"""The commit that the last version is built from. Once a version has been released, this is its tag."""

SECONDS = 240


@pytest.fixture(scope="module")
def last_version(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has the last version, and this environment's packages for what it depends on."""
    folder = tmp_path_factory.mktemp("last-version")
    archive = ["git", "-C", str(ROOT), "archive", "-o", str(folder / "source.tar"), LAST_VERSION]
    got = subprocess.run(archive, capture_output=True, text=True, timeout=60, check=False)
    if got.returncode != 0:  # a shallow clone: where it was cloned from may have the rest
        fetch = ["git", "-C", str(ROOT), "fetch", "--quiet", "--unshallow"]
        subprocess.run(fetch, capture_output=True, timeout=300, check=False)
        got = subprocess.run(archive, capture_output=True, text=True, timeout=60, check=False)
    if got.returncode != 0:
        pytest.fail(
            f"The last version is not in this clone (commit {LAST_VERSION[:7]}). Fetch it: git fetch --unshallow\n"
            f"{got.stderr}",
            pytrace=False,
        )
    with tarfile.open(folder / "source.tar") as source:
        source.extractall(folder / "source", filter="data")
    python = str(wheels.installed(folder / "source", folder) / "python")
    which = [python, "-c", "import penstock; print(penstock.__file__)"]
    ran = subprocess.run(which, check=True, capture_output=True, text=True, timeout=60, cwd=folder)
    assert Path(ran.stdout.strip()).is_relative_to(folder), "it is the last version's own code"
    return python


@pytest.fixture
def subscribers() -> Iterator[Subscribers]:
    with listening() as serving:
        serving.replying = {"/asks"}
        serving.statuses = {"/refuses": 400}
        yield serving


EVENTS = 20
FAILING = ("/fails", "/dead-letters", "/answers", "/newer")
"""Where events are refused until it is time for them."""
OBJECTS = ("broker/default", "inmemorychannel/channel", "secret/kept")
ROUTES = ("trigger/takes", "trigger/paused", "trigger/fails", "trigger/refuses", "subscription/asks")
NEWER = "trigger/newer"
"""Asks for what only this version knows."""

RETRIES = {"retry": 1000, "backoffPolicy": "linear", "backoffDelay": "PT1S"}


def objects(url: str) -> str:
    triggers = [
        trigger("takes", url),
        trigger("paused", url),
        trigger("fails", url, delivery=RETRIES),
        trigger("refuses", url, delivery={**RETRIES, "deadLetterSink": {"uri": f"{url}/dead-letters"}}),
    ]
    channel = {"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel"}
    subscription = {
        "channel": {**channel, "name": "channel"},
        "subscriber": {"uri": f"{url}/asks"},
        "reply": {"uri": f"{url}/answers"},
        "delivery": RETRIES,
    }
    items = [
        {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": "default"}},
        {**channel, "metadata": {"name": "channel"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kept"}, "stringData": {"password": "kept"}},
        *triggers,
        {**channel, "kind": "Subscription", "metadata": {"name": "asks"}, "spec": subscription},
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def trigger(name: str, url: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": name},
        "spec": {"broker": "default", "subscriber": {"uri": f"{url}/{name}"}, **spec},
    }


class Upgraded:
    """A data folder, and the versions that run on it in turn."""

    def __init__(self, folder: Path, subscribers: Subscribers) -> None:
        self.folder, self.subscribers = folder, subscribers
        paths = ("/takes", "/paused", "/fails", "/dead-letters", "/asks", "/answers")
        self.due: dict[str, set[str]] = {path: set() for path in paths}
        """Ids of all that has to be taken, by path."""
        self._running: Stack | None = None

    @property
    def running(self) -> Stack:
        assert self._running is not None
        return self._running

    def start(self, python: str = sys.executable) -> None:
        self._running = start_stack(self.folder, python=python)

    def stop(self, how: str = "in order") -> None:
        if self._running is not None and how == "in order":
            stop_process(self._running.process)
        elif self._running is not None:
            self._running.process.kill()
            self._running.process.wait()

    def all_are_ready(self) -> None:
        routes = (*ROUTES, NEWER) if "/newer" in self.due else ROUTES
        self.running.kubectl("wait", "--for=condition=Ready", *routes, "--timeout=240s", timeout=260)

    def use_something_new(self) -> None:
        """A Trigger with an option that the last version does not know."""
        delivery = {"retry": 1000, "backoffPolicy": "exponential", "backoffDelay": "PT0.5S", "backoffMax": "PT2S"}
        self.running.apply(json.dumps(trigger("newer", self.subscribers.url, delivery=delivery)))
        self.due["/newer"] = set()
        self.all_are_ready()

    def leave_waiting(self, prefix: str) -> None:
        """Sends events of which some are delivered, and the others wait: behind a pause, for the next attempt at the
        subscriber, at the reply, at the dead letter sink."""
        self.subscribers.statuses |= dict.fromkeys(FAILING, 503)
        self.pause(True)
        ids = {f"{prefix}-{number}" for number in range(EVENTS)}
        channel = self.running.kubectl("get", "inmemorychannel", "channel", "-o", "jsonpath={.status.address.url}")
        for ident in sorted(ids):
            post(f"{self.running.settings.ingress_url}/default/default", ident)
            post(channel, ident)
        for path in self.due:
            self.due[path] |= ids
        for path in ("/takes", "/asks"):
            self.arrive(path)
        for path in self.due.keys() & set(FAILING):
            eventually(partial(self.were_offered, path, ids), SECONDS)
            assert not ids & self.subscribers.taken_at(path).keys()
        assert not ids & self.subscribers.offered_at("/paused").keys()

    def settle(self) -> None:
        """Everything that was sent arrives wherever it belongs, and nothing else anywhere."""
        for path in FAILING:
            del self.subscribers.statuses[path]
        self.pause(False)
        for path in self.due:
            self.arrive(path)
        assert not self.subscribers.taken_at("/refuses")

    def arrive(self, path: str) -> None:
        eventually(lambda: self.due[path] <= self.subscribers.taken_at(path).keys(), SECONDS)
        assert self.subscribers.taken_at(path).keys() == self.due[path]

    def were_offered(self, path: str, ids: set[str]) -> bool:
        return ids <= self.subscribers.offered_at(path).keys()

    def pause(self, paused: bool) -> None:
        self.running.kubectl("annotate", "--overwrite", "trigger/paused", f"penstock.dev/paused={str(paused).lower()}")
        reason = '{.status.conditions[?(@.type=="Delivering")].reason}'
        look = ("get", "trigger/paused", "-o", f"jsonpath={reason}")
        eventually(lambda: (self.running.kubectl(*look) == "Paused") is paused, SECONDS)

    def write_history(self) -> None:
        """The tables get what there is."""
        wish = self.folder / "run" / "write-history"
        wish.touch()
        eventually(
            lambda: not wish.exists() and self.running.record["components"]["history"]["state"] == "resting", SECONDS
        )

    def objects(self) -> dict[str, str]:
        """uids of what was made at first, by name."""
        found = json.loads(self.running.kubectl("get", *OBJECTS, *ROUTES, "-o", "json"))
        return {f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["uid"] for one in found["items"]}

    def verified(self) -> dict[str, tuple[int, int]]:
        """By route, what it was to get and what of that has been done for good."""
        found = json.loads(self.running.penstock("verify", "--since", "6h", "--json"))
        return {one["name"]: (one["due"], one["delivered"] + one["dead-lettered"]) for one in found["routes"]}

    def attempts(self, route: str, ident: str) -> list[int]:
        """Numbers of the attempts at an event, in the order in which they were made."""
        asked = f"select attempt from attempts where name = '{route}' and id = '{ident}' order by record"
        return [
            json.loads(line)["attempt"] for line in self.running.penstock("sql", asked, "--format", "json").splitlines()
        ]


def post(url: str, ident: str) -> None:
    headers = {"ce-id": ident, "ce-source": "/upgrade", "ce-type": "upgrade", "ce-specversion": "1.0"}
    request = urllib.request.Request(url, b"{}", {**headers, "content-type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 202


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stops", [("in order", "killed", "in order"), ("killed", "in order", "killed")])
def test_upgrade_rollback_and_upgrade_lose_nothing(
    last_version: str, tmp_path: Path, subscribers: Subscribers, stops: tuple[str, str, str]
) -> None:
    folder = Upgraded(tmp_path / "data", subscribers)
    try:
        folder.start(last_version)
        folder.running.apply(objects(subscribers.url))
        folder.all_are_ready()
        made = folder.objects()
        folder.leave_waiting("old")
        folder.write_history()
        folder.stop(stops[0])

        folder.start()
        folder.all_are_ready()
        assert folder.objects() == made
        folder.settle()
        attempts = folder.attempts("fails", "old-0")
        assert attempts[0] == 1
        assert attempts == sorted(attempts), "retries go on with the attempt that was due"
        folder.use_something_new()
        folder.leave_waiting("new")
        folder.stop(stops[1])

        folder.start(last_version)
        folder.all_are_ready()
        assert folder.objects() == made
        folder.settle()
        folder.leave_waiting("old-again")
        folder.stop(stops[2])

        folder.start()
        folder.all_are_ready()
        assert folder.objects() == made
        folder.settle()
        everything = dict.fromkeys(("takes", "paused", "fails", "refuses", "asks"), (3 * EVENTS, 3 * EVENTS))
        eventually(lambda: folder.verified() == {**everything, "newer": (2 * EVENTS, 2 * EVENTS)}, SECONDS)
    finally:
        folder.stop()
