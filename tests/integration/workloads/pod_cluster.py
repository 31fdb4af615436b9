"""An API server and a node on it, without the rest of the stack: what Pods need to live."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from penstock.apiserver import service as apiserver
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings
from penstock.workloads import service as workloads
from tests.running import kubectl_program
from tests.waiting import eventually


class Component:
    """A component in a thread of its own."""

    def __init__(self, run: Callable[[Settings, Lifecycle], Any], settings: Settings) -> None:
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._lifecycle: Lifecycle | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, args=(run, settings), daemon=True)
        self._thread.start()
        eventually(lambda: self._failure or (self._lifecycle is not None and self._lifecycle.said))

    def _main(self, run: Callable[[Settings, Lifecycle], Any], settings: Settings) -> None:
        async def main() -> None:
            self._lifecycle = Lifecycle()
            await run(settings, self._lifecycle)

        try:
            with self._runner:
                self._runner.run(main())
        except BaseException as failure:
            self._failure = failure

    def stop(self) -> None:
        """Stops it and fails the test if it failed."""
        if self._thread.is_alive() and self._lifecycle is not None:
            self._loop.call_soon_threadsafe(self._lifecycle.stopping.set)
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert self._failure is None, self._failure


class Cluster:
    """The API and its node."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._api = Component(apiserver.run, settings)
        self._node: Component | None = Component(workloads.run, settings)

    def stop_node(self) -> None:
        """Stops the node alone."""
        if self._node is not None:
            self._node.stop()
            self._node = None

    def start_node(self) -> None:
        """Starts it again."""
        self._node = Component(workloads.run, self.settings)

    def restart_api(self) -> None:
        """Stops the API and starts it again at the same address."""
        self._api.stop()
        self._api = Component(apiserver.run, self.settings)

    def close(self) -> None:
        self.stop_node()
        self._api.stop()

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """What kubectl prints."""
        ran = subprocess.run(
            [kubectl_program(), "--kubeconfig", str(self.settings.data_dir / "kubeconfig"), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert not check or ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def run(self, name: str, image: str = "example.com/recordevents", restart: str = "Always", **env: str) -> None:
        """Creates a Pod."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "restartPolicy": restart,
                "containers": [
                    {
                        "name": "main",
                        "image": image,
                        "env": [
                            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                            {
                                "name": "SYSTEM_NAMESPACE",
                                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
                            },
                            *({"name": key, "value": value} for key, value in env.items()),
                        ],
                    }
                ],
            },
        }
        self.create(pod)

    def create(self, manifest: dict[str, Any]) -> None:
        """Creates an object."""
        self.kubectl("create", "-f", "-", stdin=json.dumps(manifest))

    def pod(self, name: str) -> dict[str, Any]:
        """The Pod as it is now."""
        found: dict[str, Any] = json.loads(self.kubectl("get", "pod", name, "-o", "json"))
        return found

    def until(self, name: str, look: Callable[[dict[str, Any]], Any], seconds: float = 120) -> dict[str, Any]:
        """The Pod once it is as wanted."""

        def now() -> dict[str, Any]:
            found = self.pod(name)
            assert look(found), found.get("status")
            return found

        settled: dict[str, Any] = eventually(now, seconds, every=0.2)
        return settled

    def reports(self, name: str) -> list[dict[str, Any]]:
        """What the Pod has recorded, in the order of its times."""
        fields = f"reason=CloudEventObserved,involvedObject.name={name}"
        events = json.loads(self.kubectl("get", "events", "--field-selector", fields, "-o", "json"))["items"]
        found = [json.loads(event["message"]) for event in events]
        return sorted(found, key=lambda info: str(info["time"]))
