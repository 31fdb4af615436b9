"""The webhook as a process runs it, over the embedded API: its certificates, its ConfigMaps, and what it answers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.apiserver import service as apiserver
from penstock.kube.client import AsyncClient
from penstock.kube.config import read_config
from penstock.kube.kinds import CONFIG_MAP, SECRET, Key, Obj
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.runtime.lifecycle import Lifecycle, first
from penstock.settings import Settings
from penstock.webhook import certificates
from penstock.webhook import service as paths
from penstock.webhook import service as webhook
from tests.running import with_held_ports
from tests.waiting import until

SECONDS = 60.0
BROKER: Obj = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": "b", "namespace": "n"}}
DEFAULTS = Key(SYSTEM_NAMESPACE, "config-br-defaults")


Run = Callable[[Settings, Lifecycle], Coroutine[Any, Any, None]]


class Announced(Lifecycle):
    """Says when the component is ready, and where."""

    def __init__(self) -> None:
        super().__init__()
        self.url, self.url_known = "", asyncio.Event()

    def ready(self, **details: object) -> None:
        self.url = str(details["url"])
        self.url_known.set()


@contextlib.asynccontextmanager
async def running(run: Run, settings: Settings) -> AsyncIterator[str]:
    """The component while the block runs; where it is."""
    lifecycle = Announced()
    component = asyncio.create_task(run(settings, lifecycle))
    try:
        async with asyncio.timeout(SECONDS):
            await first(lifecycle.url_known.wait(), asyncio.wait({component}))
        if component.done():
            await component
        yield lifecycle.url
        lifecycle.stopping.set()
        async with asyncio.timeout(SECONDS):
            await component
    finally:
        component.cancel()
        await asyncio.gather(component, return_exceptions=True)


def review(obj: Obj) -> Obj:
    group, _, version = obj["apiVersion"].rpartition("/")
    request = {
        "uid": "u-1",
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "namespace": "n",
        "name": "b",
        "operation": "CREATE",
        "userInfo": {"username": "jane"},
        "object": obj,
        "oldObject": None,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[tuple[Settings, AsyncClient]]:
    settings = with_held_ports(Settings(data_dir=tmp_path))
    async with running(apiserver.run, settings):
        client = AsyncClient(read_config(tmp_path / "kubeconfig"))
        yield settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"}), client
        await client.close()


async def test_it_answers_reviews_by_the_configmaps_with_a_certificate_that_its_secret_vouches_for(
    api: tuple[Settings, AsyncClient],
) -> None:
    settings, client = api
    async with running(webhook.run, settings.model_copy(update={"webhook_port": 0})) as url:
        secret = await client.get(SECRET, Key(SYSTEM_NAMESPACE, certificates.CERTIFICATES_SECRET))
        trusted = ssl.create_default_context(cadata=base64.b64decode(secret["data"]["ca-cert.pem"]).decode())
        named = {"sni_hostname": certificates.host_names()[0]}
        async with httpx2.AsyncClient(base_url=url, verify=trusted, trust_env=False) as server:

            async def defaulted() -> bytes:
                answer = await server.post(paths.DEFAULTING, json=review(BROKER), extensions=named)
                assert answer.status_code == 200, answer.text
                return base64.b64decode(answer.json()["response"]["patch"])

            assert b'broker.class": "Penstock"' in await defaulted()
            refused = await server.post(
                paths.VALIDATION, json=review({**BROKER, "kind": "Trigger", "spec": {}}), extensions=named
            )
            assert refused.json()["response"]["allowed"] is False
            defaults = (await client.get(CONFIG_MAP, DEFAULTS))["data"]["default-br-config"]
            assert b"made-up" not in await defaulted()
            changed = "\n".join(
                f"{line.partition(':')[0]}: made-up" if "name:" in line else line for line in defaults.splitlines()
            )
            await client.patch(CONFIG_MAP, DEFAULTS, {"data": {"default-br-config": changed}})

            async def follows() -> bool:
                return b"made-up" in await defaulted()

            await until(follows)
