"""Where the API is and who asks, from a file or from what Kubernetes mounts into a Pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.kube import config as configs
from penstock.kube.config import ConfigError, read_config
from penstock.settings import IN_CLUSTER


def test_in_a_pod_the_mounted_files_count_and_the_token_is_read_again_when_it_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in {"token": "secret", "namespace": "knative-eventing", "ca.crt": "a certificate"}.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(configs, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    config = read_config(IN_CLUSTER)
    assert config.cluster.server == "https://10.0.0.1:443"
    assert config.namespace == "knative-eventing"
    assert config.user is not None
    assert config.user.token_file == str(tmp_path / "token")


def test_without_the_files_it_says_which_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "SERVICE_ACCOUNT", tmp_path)
    with pytest.raises(ConfigError, match="token"):
        read_config(IN_CLUSTER)
