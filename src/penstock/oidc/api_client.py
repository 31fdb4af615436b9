"""A connection to the Kubernetes API for the data plane, which asks it for keys, tokens and Secrets, no more."""

from __future__ import annotations

import httpx2

from penstock.kube.client import TIMEOUT_SECONDS, AsyncClient, http_arguments
from penstock.kube.config import ClusterConfig, ConfigError, read_config
from penstock.kube.errors import error_of_response
from penstock.settings import Settings

KUBECONFIG = "kubeconfig-data-plane"
"""In the data folder, for the embedded API."""


class NoAccess(Exception):  # told as the reason of what then cannot be done
    """Where the API is, or who asks it, cannot be found out."""


def connect(settings: Settings) -> AsyncClient:
    """A connection with this role's credentials. Raises NoAccess."""
    try:
        return AsyncClient(_config(settings))
    except ConfigError as error:
        raise NoAccess(f"there is no access to the Kubernetes API: {error}") from error


def api_client(settings: Settings) -> httpx2.AsyncClient:
    """The same as a plain HTTP client. Raises NoAccess."""
    try:
        return httpx2.AsyncClient(**http_arguments(_config(settings), TIMEOUT_SECONDS))
    except ConfigError as error:
        raise NoAccess(f"there is no access to the Kubernetes API: {error}") from error


def message_of(answer: httpx2.Response) -> str:
    """Why the API refused what was asked."""
    return str(error_of_response(answer))


def _config(settings: Settings) -> ClusterConfig:
    return read_config(settings.kubeconfig or settings.data_dir / KUBECONFIG)
