"""Pods whose every name is made up: which files the node touches for them, and what it asks the API for."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpx2

from penstock.apiserver.errors import ApiError
from penstock.apiserver.http import pod_logs
from penstock.kube.client import AsyncClient
from penstock.kube.config import config_of
from penstock.resources.pod_rules import pod_faults
from penstock.workloads.kubernetes import PodApi
from penstock.workloads.processes import volumes as files
from penstock.workloads.processes.environment import ConfigError, environment, references
from penstock.workloads.processes.node_context import NodeContext

SECRET = b"of another"


class Escaped(AssertionError):
    """A Pod reached what is not its own."""


class Names(NamedTuple):
    """What a user may write."""

    kind: int = 0
    """Of the volume."""
    volume: str = "v"
    path: str = "file"
    key: str = "key"
    reference: str = "db"
    sub_path: str = ""
    container: str = "main"
    account: str = "default"
    link: str = ""
    """Of a symbolic link that a program made in its volumes."""


class MadeUpPods:
    """A node with a data folder, an API that has every object, and files of others beside."""

    def __init__(self, root: Path) -> None:
        self._root, self._around = root, NodeContext(root / "node" / "data", api_url="http://127.0.0.1:1")
        self._logs = root / "node" / "data" / "logs" / "pods" / "shop" / "p"
        self._key = ""
        self.asked: list[str] = []
        for place in (root / "outside" / "file", self._logs.parents[2] / "control.log", root / "node" / "data" / "pki"):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(SECRET)
        self._loop = asyncio.new_event_loop()
        transport = httpx2.MockTransport(self._answer)
        self._client = AsyncClient(config_of("http://127.0.0.1:1", token="t"), transport=transport)
        self._api = PodApi(self._client)
        self._others = self._files()

    def check(self, names: Names) -> None:
        """Raises Escaped."""
        self.asked, self._key = [], names.key
        pod = _pod(names)
        folder = self._around.folder_of(pod)
        pod_faults(pod["spec"], "spec")
        try:
            for name in (names.volume, "empty"):
                self._plant(folder / "volumes", name, names.link)
            self._loop.run_until_complete(self._use(pod, names, folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if (now := self._files()) != self._others:
            raise Escaped(f"files of others: {now}")
        own = (names.reference, names.account or "default")
        for asked in self.asked:
            parts = unquote(asked).split("/")[1:]
            if parts[:4] != ["api", "v1", "namespaces", "shop"] or parts[5] not in own:
                raise Escaped(f"asked for {asked}")
            if parts[4] not in ("secrets", "configmaps", "serviceaccounts") or parts[6:] not in ([], ["token"]):
                raise Escaped(f"asked for {asked}")

    def close(self) -> None:
        """Ends its connections."""
        self._loop.run_until_complete(self._client.close())
        self._loop.close()

    async def _use(self, pod: dict[str, Any], names: Names, folder: Path) -> None:
        for spec in pod["spec"]["containers"]:
            with contextlib.suppress(ConfigError, OSError):
                found = {ref: await self._api.entries(pod, *ref) for ref in references(spec)}
                environment(pod, spec, found)
            with contextlib.suppress(ConfigError, OSError):
                laid = await files.lay_out(pod, spec, self._api, self._around)
                for source, _ in laid.moved:
                    if not _is_below(source, folder):
                        raise Escaped(f"shows {source}")
            with contextlib.suppress(ConfigError, OSError):
                await files.refresh(pod, spec, self._api, self._around)
        for previous in ("true", "false"):
            with contextlib.suppress(ApiError):
                query = {"container": names.container, "previous": previous}
                answer = pod_logs.respond(self._logs, pod, query, lambda: pod)
                if SECRET in b"".join([part async for part in answer.body_iterator if isinstance(part, bytes)]):
                    raise Escaped("read a log of another")

    def _plant(self, volumes: Path, volume: str, link: str) -> None:
        """As a program does that sees the folder of its volume."""
        if any(name in ("", ".", "..") or "/" in name or "\0" in name for name in (volume, link)):
            return
        with contextlib.suppress(OSError, UnicodeEncodeError):
            (volumes / volume).mkdir(parents=True)
            for place in (link, f".{link}.new"):
                os.symlink(self._root / "outside" / ("file" if place != link else ""), volumes / volume / place)

    def _files(self) -> dict[str, bytes]:
        walked = (Path(at) / name for at, _, found in os.walk(self._root) for name in found)
        return {str(path): path.read_bytes() for path in walked}

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.url.raw_path.decode().partition("?")[0])
        if request.method == "POST":
            status = {"token": "t", "expirationTimestamp": "2030-01-01T00:00:00Z"}
            return httpx2.Response(201, json={"metadata": {}, "spec": {"audiences": []}, "status": status})
        text = "text" if "/configmaps/" in self.asked[-1] else base64.b64encode(b"text").decode()
        return httpx2.Response(200, json={"metadata": {"name": "x"}, "data": {self._key: text}})


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _pod(names: Names) -> dict[str, Any]:
    items = [{"key": names.key, "path": names.path}]
    field = {"path": names.path, "fieldRef": {"fieldPath": "metadata.name"}}
    projected = [
        {"secret": {"name": names.reference, "items": items}},
        {"configMap": {"name": names.reference}},
        {"downwardAPI": {"items": [field]}},
        {"serviceAccountToken": {"path": names.path}},
    ]
    kinds: list[dict[str, Any]] = [
        {"emptyDir": {}},
        {"secret": {"secretName": names.reference}},
        {"configMap": {"name": names.reference, "items": items}},
        {"downwardAPI": {"items": [field]}},
        *({"projected": {"sources": [one]}} for one in projected),
    ]
    ref = {"name": names.reference, "key": names.key}
    container = {
        "name": names.container,
        "env": [
            {"name": "A", "valueFrom": {"secretKeyRef": ref}},
            {"name": "B", "valueFrom": {"configMapKeyRef": ref}},
        ],
        "envFrom": [{"secretRef": {"name": names.reference}}],
    }
    volumes = [{"name": names.volume, **kinds[names.kind % len(kinds)]}, {"name": "empty", "emptyDir": {}}]
    mounts = [{"name": one, "mountPath": f"/{one}", "subPath": names.sub_path} for one in (names.volume, "empty")]
    containers = [{**container, "volumeMounts": mounts}]
    spec = {"serviceAccountName": names.account, "volumes": volumes, "containers": containers}
    return {"metadata": {"namespace": "shop", "name": "p", "uid": "1"}, "spec": spec}
