"""Sends a heartbeat to its sink every few seconds. Only the standard library: `K_SINK` says where to, `K_CE_OVERRIDES`
what to set on each event."""

import itertools
import json
import os
import time
import urllib.request
import uuid


def send(sink: str, number: int, extensions: dict[str, str]) -> int:
    attributes = {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": f"/heartbeats/{os.environ.get('HOSTNAME', 'here')}",
        "type": "dev.knative.eventing.samples.heartbeat",
        **extensions,
    }
    headers = {f"ce-{name}": value for name, value in attributes.items()} | {"content-type": "application/json"}
    request = urllib.request.Request(sink, json.dumps({"beat": number}).encode(), headers)  # noqa: S310  # its own sink
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        return int(answer.status)


def main() -> None:
    sink = os.environ["K_SINK"]
    extensions = json.loads(os.environ.get("K_CE_OVERRIDES") or "{}").get("extensions", {})
    for number in itertools.count(1):
        try:
            print(f"beat {number} to {sink}: {send(sink, number, extensions)}", flush=True)
        except OSError as error:
            print(f"beat {number} to {sink}: {error}", flush=True)
        time.sleep(float(os.environ.get("PERIOD", "5")))


if __name__ == "__main__":
    main()
