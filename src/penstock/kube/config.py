"""Address and credentials of the Kubernetes API: from a kubeconfig, or from the files mounted into a Pod."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml
from lightkube import KubeConfig
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core import exceptions

from penstock.settings import IN_CLUSTER, SERVICE_ACCOUNT

ClusterConfig = SingleConfig
"""The address of an API, the certificates to verify it with, and the credentials."""


class ConfigError(Exception):
    """A kubeconfig, or its replacement in a Pod, is missing or invalid; the text says why."""


def read_config(kubeconfig: Path) -> ClusterConfig:
    """The configuration in the kubeconfig, or the Pod's ServiceAccount for `in-cluster`. Raises ConfigError."""
    with as_config_error():
        if kubeconfig == IN_CLUSTER:
            return _chosen(KubeConfig.from_service_account(SERVICE_ACCOUNT), kubeconfig)
        return _chosen(KubeConfig.from_file(kubeconfig), kubeconfig)


def usual_config() -> ClusterConfig:
    """The configuration that kubectl would use. Raises ConfigError."""
    with as_config_error():
        return _chosen(KubeConfig.from_env(), "the kubeconfig")


def config_of(url: str, *, authority: Path | None = None, token: str | None = None) -> ClusterConfig:
    """The configuration for an address. Certificates are verified with those of the system, or with `authority`."""
    cluster = Cluster(server=url, certificate_auth=str(authority.absolute()) if authority else None)
    return _chosen(KubeConfig.from_one(cluster=cluster, user=User(token=token or None)), url)


def with_token(config: ClusterConfig, token: str) -> ClusterConfig:
    """The same API with the credentials of the token."""
    return config._replace(user=User(token=token))


def _chosen(given: KubeConfig, where: object) -> ClusterConfig:
    config = given.get()
    if config is None or config.user is None:
        raise ConfigError(f"{where} names no cluster and no user")
    return config


@contextlib.contextmanager
def as_config_error() -> Iterator[None]:
    """Raises errors of reading a configuration as ConfigError."""
    # lightkube does not validate the file: one of another form causes errors of many types.
    try:
        yield
    except (
        exceptions.ConfigError,
        yaml.YAMLError,
        msgspec.ValidationError,
        OSError,
        ValueError,
        KeyError,
        AttributeError,
        TypeError,
    ) as error:
        raise ConfigError(str(error) or type(error).__name__) from error
