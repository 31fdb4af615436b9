"""The kinds of penstock in one place: their CRDs, their admission, and the ConfigMaps that hold their defaults.

This is all the embedded API server knows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import yaml

from penstock.resources import (
    broker,
    channel,
    eventpolicy,
    eventtransform,
    eventtype,
    features,
    inmemorychannel,
    jobsink,
    knative_programs,
    kservice,
    replay,
    requestreply,
    subscription,
    trigger,
)
from penstock.resources.admission import (
    SYSTEM_NAMESPACE,
    Admission,
    AdmissionContext,
    AdmissionDenied,
    KindAdmission,
    Obj,
)
from penstock.resources.broker import defaults as broker_defaults
from penstock.resources.broker import validation as broker_validation
from penstock.resources.channel import defaults as channel_defaults
from penstock.resources.channel import validation as channel_validation
from penstock.resources.eventpolicy import defaults as eventpolicy_defaults
from penstock.resources.eventpolicy import validation as eventpolicy_validation
from penstock.resources.eventtransform import defaults as eventtransform_defaults
from penstock.resources.eventtransform import validation as eventtransform_validation
from penstock.resources.eventtype import conversion as eventtype_conversion
from penstock.resources.eventtype import defaults as eventtype_defaults
from penstock.resources.eventtype import validation as eventtype_validation
from penstock.resources.flows import kinds as flows
from penstock.resources.inmemorychannel import defaults as inmemorychannel_defaults
from penstock.resources.inmemorychannel import validation as inmemorychannel_validation
from penstock.resources.jobsink import defaults as jobsink_defaults
from penstock.resources.jobsink import validation as jobsink_validation
from penstock.resources.kservice import defaults as kservice_defaults
from penstock.resources.kservice import validation as kservice_validation
from penstock.resources.replay import defaults as replay_defaults
from penstock.resources.replay import validation as replay_validation
from penstock.resources.requestreply import defaults as requestreply_defaults
from penstock.resources.requestreply import validation as requestreply_validation
from penstock.resources.sources import kinds as sources
from penstock.resources.subscription import defaults as subscription_defaults
from penstock.resources.subscription import validation as subscription_validation
from penstock.resources.trigger import defaults as trigger_defaults
from penstock.resources.trigger import validation as trigger_validation
from penstock.settings import Settings
from penstock.yaml_files import documents

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
PENSTOCK = "penstock.dev"

ADMISSION: Mapping[tuple[str, str], Admission] = {
    (EVENTING, "Broker"): KindAdmission(EVENTING, broker_defaults.fill, broker_validation.check),
    (EVENTING, "Trigger"): KindAdmission(EVENTING, trigger_defaults.fill, trigger_validation.check),
    (EVENTING, "EventPolicy"): KindAdmission(EVENTING, eventpolicy_defaults.fill, eventpolicy_validation.check),
    (EVENTING, "EventTransform"): KindAdmission(
        EVENTING, eventtransform_defaults.fill, eventtransform_validation.check
    ),
    (EVENTING, "RequestReply"): KindAdmission(EVENTING, requestreply_defaults.fill, requestreply_validation.check),
    (EVENTING, "EventType"): KindAdmission(EVENTING, eventtype_defaults.fill, eventtype_validation.check),
    (MESSAGING, "Channel"): KindAdmission(MESSAGING, channel_defaults.fill, channel_validation.check),
    (MESSAGING, "InMemoryChannel"): KindAdmission(
        MESSAGING,
        inmemorychannel_defaults.fill,
        inmemorychannel_validation.check,
        inmemorychannel_validation.WEBHOOK,
    ),
    (MESSAGING, "Subscription"): KindAdmission(MESSAGING, subscription_defaults.fill, subscription_validation.check),
    (SERVING, "Service"): KindAdmission(
        SERVING, kservice_defaults.fill, kservice_validation.check, kservice_validation.WEBHOOK
    ),
    (SINKS, "JobSink"): KindAdmission(SINKS, jobsink_defaults.fill, jobsink_validation.check),
    (PENSTOCK, "Replay"): KindAdmission(PENSTOCK, replay_defaults.fill, replay_validation.check),
    **flows.ADMISSION,
    **sources.ADMISSION,
}

CONVERSIONS: Mapping[tuple[str, str], Callable[[Obj, str], Obj]] = {
    (EVENTING, "EventType"): eventtype_conversion.convert,
}
"""For kinds whose versions differ in more than their name: the object in another apiVersion."""


def crds() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions, as one would apply them to a cluster; the caller's to change."""
    core = (
        broker,
        trigger,
        channel,
        inmemorychannel,
        subscription,
        eventtype,
        eventpolicy,
        eventtransform,
        requestreply,
        kservice,
        jobsink,
        replay,
    )
    packages = (*core, *flows.PACKAGES, *sources.PACKAGES)
    return [definition for one in packages for definition in documents(resources.files(one).joinpath("crd.yaml"))]


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
        _configmap(broker_defaults.CONFIG_MAP, {broker_defaults.KEY: _yaml({"clusterDefault": broker_default})}),
        _configmap(
            channel_defaults.CONFIG_MAP, {channel_defaults.KEY: _yaml({"clusterDefault": channel_defaults.TEMPLATE})}
        ),
        _configmap(features.CONFIG_MAP, dict(features.DEFAULTS)),
        _configmap(sources.PING_CONFIG_MAP, {sources.PING_SIZE_KEY: str(sources.PING_UNLIMITED)}),
        _configmap("config-br-default-channel", {"channel-template-spec": _yaml(channel_defaults.TEMPLATE)}),
        *(_configmap(name, dict(data)) for name, data in knative_programs.CONFIGMAPS.items()),
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
