"""The kinds of penstock in one place: their CRDs, their admission, and the ConfigMaps that hold their defaults.

This is all the embedded API server knows of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import yaml

from penstock.kube.kinds import Obj
from penstock.resources import (
    apiserversource,
    broker,
    channel,
    containersource,
    eventpolicy,
    eventtransform,
    eventtype,
    features,
    inmemorychannel,
    integrationsink,
    integrationsource,
    jobsink,
    kservice,
    parallel,
    pingsource,
    replay,
    requestreply,
    sequence,
    sinkbinding,
    subscription,
    trigger,
)
from penstock.resources.admission import SYSTEM_NAMESPACE, Admission, AdmissionContext, AdmissionDenied, KindAdmission
from penstock.resources.connectors import nothing_to_fill
from penstock.runtime.yaml_files import documents
from penstock.settings import Settings

# The ConfigMaps that programs made with Knative's libraries, adapters and tests among them, read at their start. Such
# programs may run here as Pods, and end at once where these are missing. The content is upstream's default.

_EXAMPLE = (
    "# Read by programs made with Knative's libraries, which may run here as Pods. penstock itself logs, measures and\n"
    "# traces as its settings say.\n"
)
_ENCODER = {
    "timeKey": "ts",
    "levelKey": "level",
    "nameKey": "logger",
    "callerKey": "caller",
    "messageKey": "msg",
    "stacktraceKey": "stacktrace",
    "lineEnding": "",
    "levelEncoder": "",
    "timeEncoder": "iso8601",
    "durationEncoder": "",
    "callerEncoder": "",
}
_ZAP = {
    "level": "info",
    "development": False,
    "outputPaths": ["stdout"],
    "errorOutputPaths": ["stderr"],
    "encoding": "json",
    "encoderConfig": _ENCODER,
}
CONFIGMAPS: Mapping[str, Mapping[str, str]] = {
    "config-logging": {
        "_example": _EXAMPLE,
        "zap-logger-config": json.dumps(_ZAP, indent=2),
        "loglevel.controller": "info",
        "loglevel.webhook": "info",
    },
    "config-observability": {"_example": _EXAMPLE},
    "config-tracing": {"_example": _EXAMPLE},
}

__all__ = [
    "ADMISSION",
    "CONVERSIONS",
    "Admission",
    "AdmissionContext",
    "AdmissionDenied",
    "bootstrap_configmaps",
    "crds",
]

EVENTING = "eventing.knative.dev"
MESSAGING = "messaging.knative.dev"
SERVING = "serving.knative.dev"
SINKS = "sinks.knative.dev"
FLOWS = "flows.knative.dev"
SOURCES = "sources.knative.dev"
PENSTOCK = "penstock.dev"

ADMISSION: Mapping[tuple[str, str], Admission] = {
    (EVENTING, "Broker"): KindAdmission(EVENTING, broker.fill, broker.check),
    (EVENTING, "Trigger"): KindAdmission(EVENTING, trigger.fill, trigger.check),
    (EVENTING, "EventPolicy"): KindAdmission(EVENTING, eventpolicy.fill, eventpolicy.check),
    (EVENTING, "EventTransform"): KindAdmission(EVENTING, eventtransform.fill, eventtransform.check),
    (EVENTING, "RequestReply"): KindAdmission(EVENTING, requestreply.fill, requestreply.check),
    (EVENTING, "EventType"): KindAdmission(EVENTING, eventtype.fill, eventtype.check),
    (MESSAGING, "Channel"): KindAdmission(MESSAGING, channel.fill, channel.check),
    (MESSAGING, "InMemoryChannel"): KindAdmission(
        MESSAGING,
        inmemorychannel.fill,
        inmemorychannel.check,
        inmemorychannel.WEBHOOK,
    ),
    (MESSAGING, "Subscription"): KindAdmission(MESSAGING, subscription.fill, subscription.check),
    (SERVING, "Service"): KindAdmission(SERVING, kservice.fill, kservice.check, kservice.WEBHOOK),
    (SINKS, "JobSink"): KindAdmission(SINKS, jobsink.fill, jobsink.check),
    (SINKS, "IntegrationSink"): KindAdmission(SINKS, nothing_to_fill, integrationsink.check),
    (PENSTOCK, "Replay"): KindAdmission(PENSTOCK, replay.fill, replay.check),
    (FLOWS, "Sequence"): KindAdmission(FLOWS, sequence.fill, sequence.check),
    (FLOWS, "Parallel"): KindAdmission(FLOWS, parallel.fill, parallel.check),
    (SOURCES, "PingSource"): KindAdmission(SOURCES, pingsource.fill, pingsource.check),
    (SOURCES, "ApiServerSource"): KindAdmission(SOURCES, apiserversource.fill, apiserversource.check),
    (SOURCES, "ContainerSource"): KindAdmission(SOURCES, containersource.fill, containersource.check),
    (SOURCES, "IntegrationSource"): KindAdmission(SOURCES, nothing_to_fill, integrationsource.check),
    (SOURCES, "SinkBinding"): KindAdmission(SOURCES, sinkbinding.fill, sinkbinding.check),
}

CRDS = (
    *("broker", "trigger", "channel", "inmemorychannel", "subscription", "eventtype", "eventpolicy", "eventtransform"),
    *("requestreply", "kservice", "jobsink", "integrationsink", "replay", "sequence", "parallel", "pingsource"),
    *("apiserversource", "containersource", "sinkbinding", "integrationsource"),
)
"""In the order in which discovery lists the kinds."""

CONVERSIONS: Mapping[tuple[str, str], Callable[[Obj, str], Obj]] = {
    (EVENTING, "EventType"): eventtype.convert,
}
"""For kinds whose versions differ in more than their name: the object in another apiVersion."""


def crds() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions, as one would apply them to a cluster; the caller may change them."""
    folder = resources.files("penstock.resources").joinpath("crds")
    return [definition for name in CRDS for definition in documents(folder.joinpath(f"{name}.yaml"))]


def bootstrap_configmaps(settings: Settings) -> list[dict[str, Any]]:
    """The ConfigMaps that hold defaults, as they are created in `knative-eventing` at the first start."""
    channel_config = {"apiVersion": "v1", "kind": "ConfigMap", "name": "config-br-default-channel"}
    broker_default = {
        "brokerClass": settings.default_broker_class,
        **channel_config,
        "namespace": SYSTEM_NAMESPACE,
        "delivery": {"retry": 10, "backoffPolicy": "exponential", "backoffDelay": "PT0.2S"},
    }
    return [
        _configmap(broker.CONFIG_MAP, {broker.KEY: _yaml({"clusterDefault": broker_default})}),
        _configmap(channel.CONFIG_MAP, {channel.KEY: _yaml({"clusterDefault": channel.TEMPLATE})}),
        _configmap(features.CONFIG_MAP, dict(features.DEFAULTS)),
        _configmap(pingsource.CONFIG_MAP, {pingsource.SIZE_KEYS[0]: str(pingsource.UNLIMITED)}),
        _configmap("config-br-default-channel", {"channel-template-spec": _yaml(channel.TEMPLATE)}),
        *(_configmap(name, dict(data)) for name, data in CONFIGMAPS.items()),
    ]


def _configmap(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": {"app.kubernetes.io/name": "penstock"}},
        "data": data,
    }


def _yaml(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False)
