"""What security costs, in turn on one stack: the highest rate over TLS, with a token of OpenID Connect, with an API
key, and with long lists of destinations, each compared with the rate without any of it in the same round.

    python -m tools.benchmarks.secured --rounds 3

HTTP and HTTPS are open beside each other (`transport-encryption: permissive`). A token is asked for from every sender
or from nobody, so `authentication-oidc` is switched while the stack runs. Lists of destinations are those of a
namespace, and another namespace has none. Each second round goes through the ways backwards: what a machine gets slower
or faster by in the course of a round counts for each in turn, and the switch is moved less often.
"""

from __future__ import annotations

import argparse
import json
import secrets
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, TypeVar

import httpx2

from penstock.ingress.authorization import PREFIX, digest_of
from penstock.resources import features
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.resources.api_keys import ANNOTATION, StoredKey, annotation_of
from tools.benchmarks import loadgen, objects, special
from tools.benchmarks.objects import Api
from tools.benchmarks.scenarios import one_of
from tools.benchmarks.stack import Penstock, build_loadgen, free_port

ROUNDS = 3
SECONDS = 7.0
WARM_UP_SECONDS = 60.0
SWITCH_SECONDS = 60.0

BROKER, KEYED, GUARDED, SENDER = "secured", "keyed", "guarded", "sender"
LISTED = 200
"""Networks in the lists of the namespace that has some."""
FEATURES = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": features.CONFIG_MAP}}
PLAIN, TLS, KEY, LISTS, OIDC = "plain", "tls", "key", "lists", "oidc"
WAYS = (PLAIN, TLS, KEY, LISTS, OIDC)
"""In the order of the first round. What needs the switch is at an end, so that it is moved once a round."""

Report = dict[str, Any]
Found = TypeVar("Found")


@dataclass(frozen=True)
class Way:
    """One way to send."""

    url: str
    token: str = ""
    authority: str = ""

    def options(self) -> dict[str, Any]:
        """The flags of the load generator that it needs."""
        return {"ca": self.authority} if self.authority else {}


def main() -> None:
    """Prints what was measured as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="measured for each way in each round")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_SECONDS, help="seconds before the first round")
    given = parser.parse_args()
    if min(given.rounds, given.seconds, given.warm_up) <= 0:
        parser.error("rounds and seconds are more than 0")
    build_loadgen()
    print(json.dumps(measure(f"127.0.0.1:{free_port()}", given.rounds, given.seconds, given.warm_up), indent=2))


def measure(
    listen: str, rounds: int = ROUNDS, seconds: float = SECONDS, warm_up: float = WARM_UP_SECONDS
) -> dict[str, Any]:
    """Each way once a round."""
    stack = Penstock("--set", f"deliver_namespaces={json.dumps({GUARDED: lists(LISTED)})}")
    try:
        api = Api(stack.kubeconfig)
        ways = prepare(stack, api, listen)
        special.warm_up(stack, api, listen, warm_up)
        switch, reports = Switch(stack, api), list[dict[str, Report]]()
        for order in orders(rounds):
            found = {}
            for name in order:
                switch.to(name == OIDC)
                way = replace(ways[name], token=switch.token) if name == OIDC else ways[name]
                found[name] = load(way, listen, seconds)
            reports.append(found)
        return figures(reports)
    finally:
        stack.stop()


def orders(rounds: int) -> list[tuple[str, ...]]:
    """The ways of each round, each second one backwards."""
    return [WAYS[::-1] if number % 2 else WAYS for number in range(rounds)]


def lists(count: int) -> dict[str, list[str]]:
    """Lists that refuse everything but this machine, of so many networks."""
    refused = [f"198.{18 + number // 256}.{number % 256}.0/24" for number in range(count - 2)]
    return {"deny": ["0.0.0.0/0", *refused], "allow": ["127.0.0.0/8"]}


def load(way: Way, listen: str, seconds: float) -> Report:
    """Sends as fast as answers come, until everything is delivered."""
    flags = {"warmup": "1s", "duration": f"{seconds}s", "settle": "60s", **way.options()}
    report = loadgen.run(way.url, listen, way.token, **flags)
    if not report["accepted"]:
        raise RuntimeError(f"{way.url} has accepted nothing; its answers by status: {report['answers']}")
    return report


def prepare(stack: Penstock, api: Api, listen: str) -> dict[str, Way]:
    """Makes a Broker with a Trigger for each way that needs its own, and waits until every way is open."""
    api.create([objects.namespace_of(objects.NAMESPACE), objects.namespace_of(GUARDED)])
    api.patch(FEATURES, {"data": {features.TRANSPORT_ENCRYPTION: "permissive"}}, SYSTEM_NAMESPACE)
    api.create([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SENDER}}])
    key = PREFIX + secrets.token_urlsafe(32)
    routes = one_of(1)(f"http://{listen}/s/")
    special.prepare(api, BROKER, routes)
    special.prepare(api, BROKER, routes, namespace=GUARDED)
    special.prepare(api, KEYED, routes)
    api.annotate(objects.broker(KEYED), {ANNOTATION: annotation_of([StoredKey(SENDER, digest_of(key))])})
    path = f"/{objects.NAMESPACE}/{BROKER}"
    ways = {
        PLAIN: Way(stack.url(path)),
        TLS: Way(stack.secure_url(path), authority=str(stack.authority)),
        KEY: Way(stack.url(f"/{objects.NAMESPACE}/{KEYED}"), key),
        LISTS: Way(stack.url(f"/{GUARDED}/{BROKER}")),
        OIDC: Way(stack.url(path)),
    }
    await_answer(Way(ways[KEY].url), 401)
    for way in ways.values():
        await_answer(way, 202)
    return ways


class Switch:
    """The feature `authentication-oidc`, off at first, and the token of a sender while it is on."""

    def __init__(self, stack: Penstock, api: Api) -> None:
        self._api, self._url = api, stack.url(f"/{objects.NAMESPACE}/{BROKER}")
        self._on, self.token = False, ""

    def to(self, on: bool) -> None:
        """Moves the switch, where it is not there already, and waits until the ingress behaves like that."""
        if on == self._on:
            return
        change = {"data": {features.OIDC: "enabled" if on else "disabled"}}
        self._api.patch(FEATURES, change, SYSTEM_NAMESPACE)
        await_answer(Way(self._url), 401 if on else 202)
        if on:
            self.token = self._api.token(SENDER, self._audience())
            await_answer(Way(self._url, self.token), 202)
        self._on = on

    def _audience(self) -> str:
        broker = objects.broker(BROKER)
        found = until(lambda: self._api.get(broker)["status"]["address"].get("audience"), "the Broker has no audience")
        return str(found)


def await_answer(way: Way, status: int) -> None:
    """Waits until an event that nobody subscribes to is answered like that."""
    trust = ssl.create_default_context(cafile=way.authority or None)
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/probe", "ce-type": "probe"}
    if way.token:
        headers["authorization"] = f"Bearer {way.token}"
    with httpx2.Client(verify=trust, trust_env=False, timeout=10) as client:
        until(
            lambda: client.post(way.url, headers=headers).status_code == status,
            f"{way.url} does not answer {status}",
        )


def until(look: Callable[[], Found | None], otherwise: str) -> Found:
    """What is found as soon as there is something."""
    deadline = time.monotonic() + SWITCH_SECONDS
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.1)
    raise RuntimeError(f"{otherwise} after {SWITCH_SECONDS:.0f} s")


def figures(reports: list[dict[str, Report]]) -> dict[str, Any]:
    """The median rates of each way, and the medians of each round's ratios to the plain way of the same round."""
    found: dict[str, Any] = {}
    for what in ("accepted", "delivered"):
        rates = {name: [one[name][f"{what}_per_second"] for one in reports] for name in WAYS}
        found |= {f"{what}_{name}": median(rates[name]) for name in WAYS}
        for name in WAYS[1:]:
            pairs = zip(rates[name], rates[PLAIN], strict=True)
            found[f"{what}_ratio_{name}"] = median(secured / plain for secured, plain in pairs)
    loads = [report for one in reports for report in one.values()]
    found["lost"] = sum(report["lost"] for report in loads)
    found["refused"] = sum(refused(report) for report in loads)
    return found


def refused(report: Report) -> int:
    """Requests that were not accepted, or not answered."""
    return sum(count for status, count in report["answers"].items() if not status.startswith("2"))


if __name__ == "__main__":
    main()
