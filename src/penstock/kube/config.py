"""Where the Kubernetes API is and who asks it: from a kubeconfig, or from what Kubernetes mounts into a Pod."""

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
"""The address of an API, the certificates to verify it with, and the credentials to show."""


class ConfigError(Exception):
    """A kubeconfig, or what takes its place, is not there or cannot be used. The text says what is wrong with it."""


def read_config(kubeconfig: Path) -> ClusterConfig:
    """What the kubeconfig says; of a Pod's own ServiceAccount where it is `in-cluster`. Raises ConfigError."""
    with readable():
        if kubeconfig == IN_CLUSTER:
            return _chosen(KubeConfig.from_service_account(SERVICE_ACCOUNT), kubeconfig)
        return _chosen(KubeConfig.from_file(kubeconfig), kubeconfig)


def usual_config() -> ClusterConfig:
    """What kubectl would use. Raises ConfigError."""
    with readable():
        return _chosen(KubeConfig.from_env(), "the kubeconfig")


def config_of(url: str, *, authority: Path | None = None, token: str | None = None) -> ClusterConfig:
    """An API by its address. Its certificate is verified with those of the system unless a file of others is given."""
    cluster = Cluster(server=url, certificate_auth=str(authority.absolute()) if authority else None)
    return _chosen(KubeConfig.from_one(cluster=cluster, user=User(token=token or None)), url)


def with_token(config: ClusterConfig, token: str) -> ClusterConfig:
    """The same API for the owner of the token."""
    return config._replace(user=User(token=token))


def _chosen(given: KubeConfig, where: object) -> ClusterConfig:
    config = given.get()
    if config is None or config.user is None:
        raise ConfigError(f"{where} names no cluster and no user")
    return config


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Around what reads a configuration: whatever is wrong with it is raised as ConfigError."""
    # lightkube takes a file as it is: one of another form ends in errors of many types.
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
