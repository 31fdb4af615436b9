"""The console and the history on a cluster: there when they are wanted, with what they need and no right besides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.console.guard import names_of, refused_host
from penstock.install.manifests import chosen
from penstock.install.tls import Tls
from penstock.install.values import Values, completed
from penstock.settings import Settings

Obj = dict[str, Any]
DEFAULT = Values()
WITHOUT_CONSOLE = replace(DEFAULT, console=replace(DEFAULT.console, enabled=False))
WITH_HISTORY = replace(
    DEFAULT,
    history=replace(DEFAULT.history, enabled=True),
    settings={**DEFAULT.settings, "history_uri": "s3a://events/history"},
)


def objects(values: Values) -> dict[tuple[str, str], Obj]:
    return {(one.obj["kind"], one.obj["metadata"]["name"]): one.obj for one in chosen(values)}


def variables(values: Values) -> dict[str, str]:
    data: dict[str, str] = objects(values)["ConfigMap", "penstock-settings"]["data"]
    return data


def subjects(values: Values) -> set[str]:
    bindings = [one for (kind, _), one in objects(values).items() if kind.endswith("Binding")]
    return {subject["name"] for one in bindings for subject in one["subjects"]}


def test_the_console_is_a_role_with_all_that_goes_with_one() -> None:
    kinds = {kind for kind, name in objects(DEFAULT) if name == "penstock-console"}
    assert kinds == {"Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"}


def test_without_the_console_nothing_of_it_is_left() -> None:
    assert not [name for _, name in objects(WITHOUT_CONSOLE) if "console" in name]
    assert not [name for name in variables(WITHOUT_CONSOLE) if "CONSOLE" in name]


@pytest.mark.parametrize("values", [DEFAULT, WITH_HISTORY], ids=["console", "history"])
def test_neither_has_a_right_of_its_own(values: Values) -> None:
    assert not subjects(values) & {"penstock-console", "penstock-history"}


def test_the_console_knows_its_names() -> None:
    settings = Settings(**completed(DEFAULT))
    names = names_of(settings.host, settings.console_hosts)
    for known in ("penstock-console.knative-eventing.svc:8081", "localhost:8081", "10.0.0.7:8081"):
        assert refused_host(known, names) is None
    assert refused_host("elsewhere.example.org", names) is not None


@pytest.mark.parametrize("tls", [Tls(), Tls("secret")], ids=lambda tls: tls.mode)
def test_the_console_looks_for_numbers_where_every_pod_tells_them(tls: Tls) -> None:
    values = replace(DEFAULT, tls=tls)
    made = objects(values)
    for url in Settings(**completed(values)).console_metrics:
        scheme, _, rest = url.partition("://")
        host, _, port = rest.removesuffix("/metrics").partition(":")
        service = made["Service", host.removesuffix(".knative-eventing.svc")]
        assert scheme == ("http" if tls.is_off else "https")
        assert service["spec"]["clusterIP"] == "None", "its name leads to each Pod"
        assert {"name": "metrics", "port": int(port), "targetPort": "metrics"} in service["spec"]["ports"]


def test_prometheus_finds_each_pod_once() -> None:
    asked = [
        one["spec"]["selector"]["app.kubernetes.io/name"]
        for (kind, _), one in objects(WITH_HISTORY).items()
        if kind == "Service" and any(port["name"] == "metrics" for port in one["spec"]["ports"])
    ]
    assert sorted(asked) == [
        f"penstock-{role}" for role in ("console", "control", "history", "ingress", "pipeline", "webhook")
    ]


def test_the_history_is_written_where_it_is_wanted() -> None:
    assert not [name for _, name in objects(DEFAULT) if "history" in name]
    pod = objects(WITH_HISTORY)["Deployment", "penstock-history"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["args"] == ["history"]
    assert variables(WITH_HISTORY)["PENSTOCK_HISTORY"] == "true"


def test_a_history_with_executors_may_ask_for_them() -> None:
    values = replace(WITH_HISTORY, spark_executors=True)
    assert "penstock-history" in subjects(values)
    pod = objects(values)["Deployment", "penstock-history"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is True
    named = {port["name"] for port in pod["containers"][0]["ports"]}
    assert {"driver", "blocks"} <= named


def test_settings_that_were_given_count_before_those_that_follow() -> None:
    own = ["https://metrics.example.org/metrics"]
    values = replace(DEFAULT, settings={**DEFAULT.settings, "console_metrics": own})
    assert completed(values)["console_metrics"] == own
