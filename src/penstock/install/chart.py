"""The Helm chart: the same objects, with an expression of Helm wherever something can be chosen.

Each choice stands in the objects as a mark; in the YAML the mark, quotes included, becomes an expression that writes
the value as JSON, which is YAML as well, whatever its type.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from importlib.metadata import version
from typing import Any

import yaml

from penstock.install.manifests import by_file, text
from penstock.install.objects import Manifest, Obj
from penstock.install.values import EXECUTOR_SETTINGS, Role, Values
from penstock.resources.admission import SYSTEM_NAMESPACE

_MARK = re.compile(r"""['"]?<<(.*?)>>['"]?""")
_KEEP = {"helm.sh/resource-policy": "keep"}
_ROLES = ("ingress", "control", "webhook", "pipeline")
_SETTINGS = """
{{- $settings := .Values.settings }}
{{- if .Values.sparkExecutors }}{{ $settings = merge (deepCopy $settings) (%s | fromJson) }}{{ end }}
{{- range $name, $value := $settings }}
{{- $text := kindIs "string" $value | ternary $value (toJson $value) }}
  PENSTOCK_{{ upper $name }}: {{ toJson $text }}
{{- end }}"""


def _named(name: str) -> str:
    """A field as Helm's charts spell it."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _mark(path: str) -> str:
    return f"<<toJson .Values.{path}>>"


def _marked() -> Values:
    """The choices as marks; of those that decide what is there, everything."""
    roles = {role: Role(_mark(f"{role}.replicas"), _mark(f"{role}.resources")) for role in _ROLES}
    choices: dict[str, Any] = {
        one.name: _mark(_named(one.name))
        for one in fields(Values)
        if one.name not in (*_ROLES, "spark_executors", "service_monitor", "network_policies")
    }
    choices |= {**roles, "settings": "<<settings>>"}
    return Values(**choices)


def values_file() -> str:
    """`values.yaml`: every choice with its default."""
    default = Values()
    said: dict[str, Any] = {}
    for one in fields(Values):
        value = getattr(default, one.name)
        said[_named(one.name)] = (
            {"replicas": value.replicas, "resources": value.resources} if one.name in _ROLES else value
        )
    comments = {
        "image": "One image is every role, and Spark's driver and executors.",
        "settings": "Settings of penstock, by their names (docs/settings.md); the same for every role.",
        "environmentFrom": "A Secret whose entries become environment variables, such as PENSTOCK_KAFKA_CONF.",
        "filesFrom": "A Secret whose entries become files in /etc/penstock/tls.",
        "ingress": "The ingress scales between replicas and ingressMaxReplicas.",
        "sparkExecutors": "Whether Spark's executors are Pods of their own; otherwise they are part of the pipeline.",
        "serviceMonitor": "Whether Prometheus' operator is told where metrics are.",
    }
    parts = []
    for name, value in said.items():
        comment = f"# {comments[name]}\n" if name in comments else ""
        parts.append(comment + yaml.safe_dump({name: value}, sort_keys=False))
    return "# Made by `make manifests`; change src/penstock/install instead.\n" + "".join(parts)


def chart_file() -> str:
    """`Chart.yaml`."""
    chart = {
        "apiVersion": "v2",
        "name": "penstock",
        "description": "Knative Eventing's Brokers, Triggers, Channels and Subscriptions on Kafka and Spark",
        "type": "application",
        "version": version("penstock"),
        "appVersion": version("penstock"),
        "kubeVersion": ">=1.30.0-0",
    }
    return yaml.safe_dump(chart, sort_keys=False)


def files() -> dict[str, str]:
    """The chart's files by their paths in it."""
    marked = _marked()
    local, executors = by_file(marked), by_file(replace(marked, spark_executors=True))
    templates = {
        f"templates/{name.partition('-')[2]}": "".join(_documents(local[name], executors[name]))
        for name in local
        if name != "01-namespace.yaml"
    }
    refuse = (
        f'{{{{- if ne .Release.Namespace "{SYSTEM_NAMESPACE}" }}}}\n'
        f'{{{{- fail "install this chart into the namespace {SYSTEM_NAMESPACE}" }}}}\n{{{{- end }}}}\n'
    )
    return {
        "Chart.yaml": chart_file(),
        "values.yaml": values_file(),
        "templates/namespace-check.yaml": refuse,
        **templates,
    }


def _documents(local: list[Manifest], executors: list[Manifest]) -> list[str]:
    """Each object once where it is the same with executors of Spark's and without, else in both forms."""
    made = []
    for without, with_them in zip(local, executors, strict=True):
        choice = [f".Values.{_named(without.choice)}"] if without.choice else []
        if without == with_them:
            made.append(_document(without, choice))
        else:
            made.append(_document(with_them, [".Values.sparkExecutors", *choice]))
            made.append(_document(without, ["(not .Values.sparkExecutors)", *choice]))
    return made


def _document(manifest: Manifest, conditions: list[str]) -> str:
    obj = manifest.obj
    if manifest.once or obj["kind"] == "CustomResourceDefinition":
        # Removing the release must not remove every Broker of the cluster, nor what somebody has configured.
        annotations = {**(obj["metadata"].get("annotations") or {}), **_KEEP}
        obj = {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
    document = "---\n" + _expressed(obj)
    return f"{{{{- if and {' '.join(conditions)} }}}}\n{document}{{{{- end }}}}\n" if conditions else document


def _expressed(obj: Obj) -> str:
    written = text([obj]).replace("{{", '{{ "{{" }}')
    settings = _SETTINGS % json.dumps(json.dumps(EXECUTOR_SETTINGS))
    return _MARK.sub(lambda mark: settings if mark[1] == "settings" else f"{{{{ {mark[1]} }}}}", written)
