"""The Helm chart, rendered by Helm itself: the same objects as `penstock install`, and the API takes them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.kubernetes import RealApi
from cluster.kubernetes_binaries import helm
from penstock.install.manifests import chosen
from penstock.install.values import EXECUTOR_SETTINGS, Values

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


def test_choices_are_the_same() -> None:
    flags = ["--set", "sparkExecutors=true,serviceMonitor=true,networkPolicies=false,image=elsewhere/penstock:1"]
    default = Values()
    values = replace(
        default,
        spark_executors=True,
        service_monitor=True,
        network_policies=False,
        image="elsewhere/penstock:1",
        settings={**default.settings, **EXECUTOR_SETTINGS},
    )
    assert rendered(*flags) == installed(values)


def test_helm_finds_nothing_wrong() -> None:
    ran = run("lint", str(CHART), "--strict")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_another_namespace_is_refused() -> None:
    ran = run("template", "penstock", str(CHART), "--kube-version", "1.32.0", namespace="default")
    assert "install this chart into the namespace knative-eventing" in ran.stderr


@pytest.mark.parametrize("flags", [[], ["--set", "sparkExecutors=true"]], ids=["plain", "executors"])
def test_the_api_takes_what_helm_renders(flags: list[str], cluster: RealApi) -> None:
    ran = run("template", "penstock", str(CHART), "--kube-version", "1.32.0", *flags)
    told = cluster.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=ran.stdout,
    )
    assert "deployment.apps/penstock-pipeline serverside-applied (server dry run)" in told
