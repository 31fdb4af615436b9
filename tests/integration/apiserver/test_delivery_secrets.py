"""The way of a Secret to deliveries: the data plane asks the API for one by name, and may not look at others."""

from __future__ import annotations

import asyncio

import pytest

from penstock.dispatcher.secrets import NoSecret, SecretName, SecretRequests
from penstock.settings import Settings
from tests.integration.apiserver.api_process import Server

DATA_PLANE = "system:serviceaccount:knative-eventing:eventing-data-plane"


def read(settings: Settings, place: SecretName) -> dict[str, bytes]:
    async def ask() -> dict[str, bytes]:
        requests = SecretRequests(settings)
        try:
            return await requests(place)
        finally:
            await requests.close()

    return asyncio.run(ask())


def test_a_secret_is_read_by_its_name(server: Server, namespace: str) -> None:
    body = {"metadata": {"name": "keys"}, "stringData": {"a": "whsec_\u00fc"}}
    assert server.call("POST", f"/api/v1/namespaces/{namespace}/secrets", body).status == 201
    settings = Settings(data_dir=server.data_dir)
    assert read(settings, SecretName(namespace, "keys")) == {"a": "whsec_\u00fc".encode()}
    with pytest.raises(NoSecret, match=rf'the Secret {namespace}/none cannot be read: secrets "none" not found'):
        read(settings, SecretName(namespace, "none"))


def test_the_data_plane_may_read_secrets_and_neither_list_nor_change_them(server: Server, namespace: str) -> None:
    def may(verb: str) -> str:
        return server.kubectl("auth", "can-i", verb, "secrets", "--as", DATA_PLANE, "-n", namespace, ok=verb == "get")

    answers = {verb: may(verb).split()[0] for verb in ("get", "list", "watch", "create", "update", "patch", "delete")}
    assert answers.pop("get") == "yes"
    assert set(answers.values()) == {"no"}


def test_an_api_that_cannot_be_found_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = Settings(data_dir=tmp_path_factory.mktemp("nowhere"))
    with pytest.raises(NoSecret, match="the Secret ns/keys cannot be read: there is no access to the Kubernetes API"):
        read(settings, SecretName("ns", "keys"))
