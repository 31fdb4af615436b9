"""What three open consoles take from deliveries: the rate with them and without, in turn, on one stack.

    python -m tools.benchmarks.consoles --rounds 4

Each console is a map or table whose numbers move, a live tail of all events, and a page of the newest events that is
loaded every five seconds. What is compared is the highest rate of deliveries; also the processor time of the console.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import httpx2

from penstock.operations.login_link import token_in
from tools.benchmarks import loadgen, objects
from tools.benchmarks.stack import Penstock, build_loadgen, free_port

CONSOLES = 3
LOOK_SECONDS = 5.0
LOAD = {"warmup": "2s", "duration": "8s"}


class Consoles:
    """Pages that are open."""

    def __init__(self, url: str, token: str, count: int) -> None:
        self._url, self._closing = url.rstrip("/"), threading.Event()
        with httpx2.Client(timeout=60, trust_env=False) as client:
            client.post(f"{self._url}/login", data={"token": token}, headers={"Origin": self._url})
            self._cookies = dict(client.cookies)
        self._lock = threading.Lock()
        self.samples: list[dict[str, int]] = []
        self.loaded = 0
        targets = [lambda: self._follow("/live/numbers"), lambda: self._follow("/live/events"), self._load]
        self._threads = [threading.Thread(target=target, daemon=True) for target in targets * count]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Closes them."""
        self._closing.set()
        for thread in self._threads:
            thread.join(60)

    def _follow(self, path: str) -> None:
        with self._client() as client, client.stream("GET", self._url + path) as stream:
            stream.raise_for_status()
            for line in stream.iter_lines():
                if self._closing.is_set():
                    return
                if line.startswith("data: ") and "sample" in (told := json.loads(line[6:])):
                    with self._lock:
                        self.samples.append(told["sample"])

    def _client(self) -> httpx2.Client:
        return httpx2.Client(timeout=60, trust_env=False, cookies=self._cookies)

    def _load(self) -> None:
        with self._client() as client:
            while not self._closing.wait(LOOK_SECONDS):
                client.get(f"{self._url}/events?since=10m").raise_for_status()
                with self._lock:
                    self.loaded += 1


@contextmanager
def opened(url: str, token: str, count: int) -> Iterator[Consoles | None]:
    """So many consoles of the token's owner, or none."""
    consoles = Consoles(url, token, count) if count else None
    try:
        if consoles is not None:
            time.sleep(2)
        yield consoles
    finally:
        if consoles is not None:
            consoles.close()


def measure(rounds: int) -> dict[str, Any]:
    """The rates with and without, in turn."""
    build_loadgen()
    stack, listen = Penstock(), f"127.0.0.1:{free_port()}"
    try:
        api = objects.Api(stack.kubeconfig)
        api.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": objects.NAMESPACE}}], "")
        api.create([objects.broker("b")])
        route = {"name": "t", "attributes": {"type": "bench"}, "subscriber": f"http://{listen}/s/0"}
        api.create([objects.trigger("b", route)])
        api.await_ready("triggers", {"b-t"})
        url = stack.url(f"/{objects.NAMESPACE}/b")
        loadgen.run(url, listen, **LOAD)  # until the JVMs are warm
        console = f"http://127.0.0.1:{stack.settings['console_port']}"
        rates: dict[int, list[float]] = {0: [], CONSOLES: []}
        samples: list[dict[str, int]] = []
        cpu = 0.0
        for _ in range(rounds):
            for count in (0, CONSOLES):
                before = stack.usage().cpu_by_process.get("console", 0.0)
                with opened(console, token_in(stack.kubeconfig), count) as pages:
                    report = loadgen.run(url, listen, **LOAD)
                rates[count].append(float(report["delivered_per_second"]))
                if pages is not None:
                    samples += pages.samples
                    cpu += stack.usage().cpu_by_process.get("console", 0.0) - before
        without, beside = median(rates[0]), median(rates[CONSOLES])
        return {
            "without": rates[0],
            "with": rates[CONSOLES],
            "share": round(beside / without, 3),
            "console_cpu_seconds_per_round": round(cpu / rounds, 2),
            "samples": len(samples),
            "largest_sample": max(samples, key=lambda one: one["of"]) if samples else None,
        }
    finally:
        stack.stop()


def main() -> None:
    """Prints what was measured as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=4)
    print(json.dumps(measure(parser.parse_args().rounds), indent=2))


if __name__ == "__main__":
    main()
