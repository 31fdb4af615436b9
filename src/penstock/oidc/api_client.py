"""A connection to the Kubernetes API for the data plane, which asks it for keys, tokens and Secrets, no more."""

from __future__ import annotations

import httpx2
from lightkube import KubeConfig
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.core.exceptions import ConfigError

from penstock.settings import IN_CLUSTER, SERVICE_ACCOUNT, Settings

KUBECONFIG = "kubeconfig-data-plane"
"""In the data folder, for the embedded API."""
SECONDS = 10.0


class NoAccess(Exception):  # told as the reason of what then cannot be done
    """Where the API is, or who asks it, cannot be found out."""


def api_client(settings: Settings) -> httpx2.AsyncClient:
    """A client with the API's address, its certificates and this role's credentials. Raises NoAccess."""
    path = settings.kubeconfig or settings.data_dir / KUBECONFIG
    try:
        given = KubeConfig.from_service_account(SERVICE_ACCOUNT) if path == IN_CLUSTER else KubeConfig.from_file(path)
        config = given.get()
    except (ConfigError, OSError) as error:
        raise NoAccess(f"there is no access to the Kubernetes API: {error}") from error
    if config is None or config.user is None:
        raise NoAccess(f"{path} names no cluster and no user")
    return AsyncClient(config, ConnectionParams(timeout=httpx2.Timeout(SECONDS), trust_env=False))


def message_of(answer: httpx2.Response) -> str:
    """Why the API refused what was asked."""
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {answer.status_code}"
