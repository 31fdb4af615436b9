"""The Helm chart: the same objects, with a Helm expression for every value.

The objects contain a mark for each value; in the YAML the mark, quotes included, becomes an expression that writes
the value as JSON, which is YAML as well, whatever its type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib.metadata import version
from typing import Any

import yaml

from penstock.install.manifests import by_file, text
from penstock.install.objects import Manifest
from penstock.install.tls import MODES, SERVICE_NAMES, Tls
from penstock.install.values import RolePods, Values, implied
from penstock.kube.kinds import Obj
from penstock.resources.admission import SYSTEM_NAMESPACE

_MARK = re.compile(r"""['"]?<<(.*?)>>['"]?""")
_KEEP = {"helm.sh/resource-policy": "keep"}
_CONDITIONS = {
    "tls.is_on": '(ne (toString .Values.tls.mode) "off")',
    "tls.is_off": '(eq (toString .Values.tls.mode) "off")',
    "tls.is_made": '(eq (toString .Values.tls.mode) "cert-manager")',
}
"""Attributes that are not values of the chart, but follow from one."""
_CHECKS = """\
{{- if ne .Release.Namespace "NAMESPACE" }}
{{- fail "install this chart into the namespace NAMESPACE" }}
{{- end }}
{{- if not (has (toString .Values.tls.mode) (list MODES)) }}
{{- fail "tls.mode is one of 'off' (in quotes: YAML takes it for false), 'secret' and 'cert-manager'" }}
{{- end }}
{{- if and .Values.history.enabled (not (contains "://" (default "" .Values.settings.history_uri))) }}
{{- fail "history.enabled needs settings.history_uri: storage that every Pod can reach, such as s3a://bucket/history" }}
{{- end }}
"""
_DEFINITIONS = """\
{{- define "penstock.scheme" }}{{ TLS_IS_ON | ternary "https" "http" }}{{ end }}
{{- define "penstock.trust" }}
{{- $entry := dict "name" .Values.tls.secret "key" .Values.tls.authority }}
{{- empty .Values.tls.authority | ternary (dict) (dict "secret" $entry) | toJson }}
{{- end }}
{{- define "penstock.names" }}{{ concat (SERVICE_NAMES | fromJsonArray) .Values.tls.names | toJson }}{{ end }}
{{- /* The settings, and those that follow from what was chosen, where they were not given. */}}
{{- define "penstock.settings" }}
{{- $settings := deepCopy .Values.settings }}
{{- $implied := list }}
IMPLIED
{{- range $implied }}
{{- range $name, $value := . }}
{{- if not (hasKey $settings $name) }}{{ $_ := set $settings $name $value }}{{ end }}
{{- end }}
{{- end }}
{{- range $name, $value := $settings }}
{{- $text := kindIs "string" $value | ternary $value (toJson $value) }}
  PENSTOCK_{{ upper $name }}: {{ toJson $text }}
{{- end }}
{{- end }}
"""


def _named(name: str) -> str:
    """The name of a field in the style of Helm charts."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _mark(path: str) -> str:
    return f"<<toJson .Values.{path}>>"


@dataclass(frozen=True)
class _MarkedTls(Tls):
    """What follows from the values about TLS, as marks."""

    is_off = f"<<{_CONDITIONS['tls.is_off']}>>"
    scheme = '<<include "penstock.scheme" .>>'
    probe_scheme = '<<include "penstock.scheme" . | upper>>'
    trust = '<<include "penstock.trust" .>>'
    all_names = '<<include "penstock.names" .>>'


def _marked() -> Values:
    """The values as marks; those that decide which objects are included have their defaults."""
    return Values(**{one.name: _marked_value(one.name, getattr(Values(), one.name)) for one in fields(Values)})


def _marked_value(name: str, value: Any) -> Any:
    match value:
        case RolePods():
            return replace(value, replicas=_mark(f"{name}.replicas"), resources=_mark(f"{name}.resources"))
        case Tls():
            return _MarkedTls(**{one.name: _mark(f"{name}.{_named(one.name)}") for one in fields(Tls)})
        case bool():
            return value
        case _:
            return "<<settings>>" if name == "settings" else _mark(_named(name))


def values_file() -> str:
    """`values.yaml`: every value with its default."""
    default = Values()
    said = {_named(one.name): _said(getattr(default, one.name)) for one in fields(Values)}
    comments = {
        "image": "One image is every role, and Spark's driver and executors.",
        "settings": "Settings of penstock, by their names (docs/settings.md); the same for every role.",
        "environmentFrom": "A Secret whose entries become environment variables, such as PENSTOCK_KAFKA_CONF.",
        "filesFrom": "A Secret whose entries become files in /etc/penstock/tls.",
        "ingress": "The ingress scales between replicas and ingressMaxReplicas.",
        "console": "The pages for browsers. They ask for a token, and show what its owner may see (docs/console.md).",
        "history": "Writes every event and attempt to tables; needs settings.history_uri (docs/history.md).",
        "tls": "TLS of the ingress, the console, metrics and probes: 'off', 'secret' (yours, kubernetes.io/tls) or\n"
        "# 'cert-manager', which makes and renews it. authority: its key with the authority for clients, if any.",
        "apiServerSources": "Whether the controllers may impersonate the ServiceAccounts of every namespace, as\n"
        "# ApiServerSources need it. If not, bind the ClusterRole penstock-control-impersonation where there are some.",
        "sinkBindings": "Whether the controllers may change workloads and write ConfigMaps in every namespace, which\n"
        "# SinkBindings and ContainerSources need.",
        "sparkExecutors": "Whether Spark's executors are Pods of their own; otherwise they are part of the pipeline.",
        "serviceMonitor": "Whether to create a ServiceMonitor for Prometheus' operator.",
    }
    parts = []
    for name, value in said.items():
        comment = f"# {comments[name]}\n" if name in comments else ""
        parts.append(comment + yaml.safe_dump({name: value}, sort_keys=False))
    return "# Made by `make manifests`; change src/penstock/install instead.\n" + "".join(parts)


def _said(value: Any) -> Any:
    if not is_dataclass(value):
        return value
    said = {_named(one.name): getattr(value, one.name) for one in fields(value)}
    return {"enabled": said.pop("enabled"), **said} if "enabled" in said else said


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
    return {
        "Chart.yaml": chart_file(),
        "values.yaml": values_file(),
        "templates/_definitions.tpl": _definitions(),
        "templates/checks.yaml": _CHECKS.replace("NAMESPACE", SYSTEM_NAMESPACE).replace(
            "MODES", " ".join(json.dumps(mode) for mode in MODES)
        ),
        **templates,
    }


def _definitions() -> str:
    """Named templates, for what needs more than an expression."""
    chosen = Values(tls=Tls(authority="{{ .Values.tls.authority }}"))
    implied_lines = [
        f"{{{{- if and {_conditions(one.choices) or 'true'} }}}}"
        f"{{{{ $implied = append $implied (tpl `{json.dumps(one.settings)}` . | fromJson) }}}}{{{{ end }}}}"
        for one in implied(chosen)
    ]
    return (
        _DEFINITIONS.replace("TLS_IS_ON", _CONDITIONS["tls.is_on"])
        .replace("SERVICE_NAMES", f"`{json.dumps(SERVICE_NAMES)}`")
        .replace("IMPLIED", "\n".join(implied_lines))
    )


def _conditions(choices: Iterable[str]) -> str:
    return " ".join(_CONDITIONS.get(choice, f".Values.{_path(choice)}") for choice in choices)


def _path(choice: str) -> str:
    return ".".join(_named(part) for part in choice.split("."))


def _documents(local: list[Manifest], executors: list[Manifest]) -> list[str]:
    """Each object once where it is the same with Spark executors and without, otherwise in both forms."""
    made = []
    for without, with_them in zip(local, executors, strict=True):
        if without == with_them:
            made.append(_document(without, _conditions(without.choices)))
        else:
            made.append(_document(with_them, f".Values.sparkExecutors {_conditions(with_them.choices)}".rstrip()))
            made.append(_document(without, f"(not .Values.sparkExecutors) {_conditions(without.choices)}".rstrip()))
    return made


def _document(manifest: Manifest, conditions: str) -> str:
    obj = manifest.obj
    if manifest.once or obj["kind"] == "CustomResourceDefinition":
        # Removing the release must not remove every Broker of the cluster, nor their configuration.
        annotations = {**(obj["metadata"].get("annotations") or {}), **_KEEP}
        obj = {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
    document = "---\n" + _expressed(obj)
    return f"{{{{- if and {conditions} }}}}\n{document}{{{{- end }}}}\n" if conditions else document


def _expressed(obj: Obj) -> str:
    written = text([obj]).replace("{{", '{{ "{{" }}')
    settings = '{{ include "penstock.settings" . }}'
    return _MARK.sub(lambda mark: settings if mark[1] == "settings" else f"{{{{ {mark[1]} }}}}", written)
