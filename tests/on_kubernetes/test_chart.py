"""The Helm chart, rendered by Helm itself: the same objects as `penstock install`, and the API takes them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.install.manifests import chosen
from penstock.install.tls import Tls
from penstock.install.values import Values
from tools.cluster.kubernetes import RealApi
from tools.cluster.kubernetes_binaries import helm

CHART = Path(__file__).parents[2] / "deploy" / "helm"
Obj = dict[str, Any]


def run(*arguments: str, namespace: str = "knative-eventing") -> subprocess.CompletedProcess[str]:
    command = [str(helm()), *arguments, "--namespace", namespace]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(*flags: str) -> dict[tuple[str, str], Obj]:
    ran = run("template", "penstock", str(CHART), "--kube-version", "1.32.0", *flags)
    assert ran.returncode == 0, ran.stderr
    objects = [one for one in yaml.safe_load_all(ran.stdout) if one]
    for one in objects:
        annotations = one["metadata"].get("annotations") or {}
        if annotations.pop("helm.sh/resource-policy", None) and not annotations:
            del one["metadata"]["annotations"]
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def installed(values: Values) -> dict[tuple[str, str], Obj]:
    objects = [one.obj for one in chosen(values) if one.obj["kind"] != "Namespace"]
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def test_the_chart_has_the_same_objects() -> None:
    assert rendered() == installed(Values())


DEFAULT = Values()
WITH_ALL = replace(
    DEFAULT,
    spark_executors=True,
    service_monitor=True,
    network_policies=False,
    image="elsewhere/penstock:1",
    history=replace(DEFAULT.history, enabled=True),
    settings={**DEFAULT.settings, "history_uri": "s3a://events/history"},
    tls=Tls("cert-manager", secret="ours", issuer={"kind": "Issuer", "name": "own"}, names=["console.example.org"]),
)
ALL_FLAGS = (
    "sparkExecutors=true,serviceMonitor=true,networkPolicies=false,image=elsewhere/penstock:1,history.enabled=true,"
    "settings.history_uri=s3a://events/history,tls.mode=cert-manager,tls.secret=ours,tls.issuer.kind=Issuer,"
    "tls.issuer.name=own,tls.names={console.example.org}"
)
WITH_LITTLE = replace(
    DEFAULT,
    service_monitor=True,
    console=replace(DEFAULT.console, enabled=False),
    tls=Tls("secret", authority=""),
    api_server_sources=False,
    sink_bindings=False,
    settings={**DEFAULT.settings, "tls": False},
)
LITTLE_FLAGS = (
    "serviceMonitor=true,console.enabled=false,tls.mode=secret,tls.authority=,settings.tls=false,"
    "apiServerSources=false,sinkBindings=false"
)


@pytest.mark.parametrize(
    ("flags", "values"), [(ALL_FLAGS, WITH_ALL), (LITTLE_FLAGS, WITH_LITTLE)], ids=["much", "little"]
)
def test_choices_are_the_same(flags: str, values: Values) -> None:
    assert rendered("--set", flags) == installed(values)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("tls.mode=on", "tls.mode is one of 'off'"),
        ("tls.mode=false", "tls.mode is one of 'off'"),
        ("history.enabled=true", "history.enabled needs settings.history_uri"),
    ],
)
def test_what_cannot_be_is_told(flags: str, told: str) -> None:
    ran = run("template", "penstock", str(CHART), "--kube-version", "1.32.0", "--set", flags)
    assert ran.returncode != 0
    assert told in ran.stderr


def test_helm_finds_nothing_wrong() -> None:
    ran = run("lint", str(CHART), "--strict")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_another_namespace_is_refused() -> None:
    ran = run("template", "penstock", str(CHART), "--kube-version", "1.32.0", namespace="default")
    assert "install this chart into the namespace knative-eventing" in ran.stderr


@pytest.mark.parametrize(
    "flags",
    [[], ["--set", "sparkExecutors=true"], ["--set", f"{LITTLE_FLAGS},serviceMonitor=false"]],
    ids=["plain", "executors", "with a certificate"],
)
def test_the_api_takes_what_helm_renders(flags: list[str], cluster: RealApi) -> None:
    ran = run("template", "penstock", str(CHART), "--kube-version", "1.32.0", *flags)
    told = cluster.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=ran.stdout,
    )
    assert "deployment.apps/penstock-pipeline serverside-applied (server dry run)" in told
