"""The few requests that the webhook makes of the cluster's API: its Secret, the ConfigMaps, who trusts it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
from lightkube import AsyncClient, KubeConfig
from lightkube.generic_resource import GenericGlobalResource, GenericNamespacedResource, create_api_info

from penstock.resources.admission import SYSTEM_NAMESPACE, Obj
from penstock.settings import IN_CLUSTER, Settings

FIELD_MANAGER = "penstock-webhook"
NOT_FOUND, CONFLICT = 404, 409

_REGISTRATION = "admissionregistration.k8s.io"


class _Secret(GenericNamespacedResource):
    _api_info = create_api_info("", "v1", "Secret", "secrets")


class _ConfigMap(GenericNamespacedResource):
    _api_info = create_api_info("", "v1", "ConfigMap", "configmaps")


class _Mutating(GenericGlobalResource):
    _api_info = create_api_info(_REGISTRATION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations")


class _Validating(GenericGlobalResource):
    _api_info = create_api_info(
        _REGISTRATION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"
    )


class _Definition(GenericGlobalResource):
    _api_info = create_api_info("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")


_TRUSTING: dict[str, Any] = {
    "MutatingWebhookConfiguration": _Mutating,
    "ValidatingWebhookConfiguration": _Validating,
    "CustomResourceDefinition": _Definition,
}


class WebhookCluster:
    """A connection to the API server."""

    def __init__(self, settings: Settings) -> None:
        if settings.kubeconfig is None:
            raise ValueError("the webhook serves an existing cluster: name its kubeconfig, or `in-cluster`")
        in_cluster = settings.kubeconfig == IN_CLUSTER
        config = KubeConfig.from_service_account() if in_cluster else KubeConfig.from_file(settings.kubeconfig)
        self._client = AsyncClient(config, field_manager=FIELD_MANAGER, trust_env=False)

    async def close(self) -> None:
        """Ends every connection."""
        await self._client.close()

    async def secret(self, name: str) -> Obj | None:
        """The Secret; None if there is none."""
        try:
            return dict(await self._client.get(_Secret, name, namespace=SYSTEM_NAMESPACE))
        except Exception as error:
            if code_of(error) == NOT_FOUND:
                return None
            raise

    async def write_secret(self, secret: Obj) -> Obj:
        """Stores the Secret, in place of the version it was read at if it was read."""
        written = _Secret(**secret)
        if "resourceVersion" in secret["metadata"]:
            return dict(await self._client.replace(written))
        return dict(await self._client.create(written))

    async def configmaps(self) -> tuple[list[Obj], str]:
        """The ConfigMaps of the system's namespace, and the version to watch from."""
        pages = self._client.list(_ConfigMap, namespace=SYSTEM_NAMESPACE)
        found = [dict(one) async for one in pages]
        return found, pages.resourceVersion

    async def configmap_changes(self, version: str) -> AsyncIterator[str]:
        """Says that something changed, each time; raises or ends when the watch does."""
        async for change, _ in self._client.watch(_ConfigMap, namespace=SYSTEM_NAMESPACE, resource_version=version):
            yield change

    async def trusting(self, kind: str, name: str) -> Obj | None:
        """An object that holds a `caBundle`; None if there is none."""
        try:
            return dict(await self._client.get(_TRUSTING[kind], name))
        except Exception as error:
            if code_of(error) == NOT_FOUND:
                return None
            raise

    async def replace_trusting(self, kind: str, obj: Obj) -> None:
        """Stores it in place of the version it was read at."""
        await self._client.replace(_TRUSTING[kind](obj))


def code_of(error: Exception) -> int | None:
    """The HTTP status behind an error of the API; None where there was no answer."""
    return error.response.status_code if isinstance(error, httpx2.HTTPStatusError) else None
