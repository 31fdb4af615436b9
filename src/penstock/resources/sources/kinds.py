"""The kinds of sources.knative.dev in one place: their packages, which hold the CRDs, and their admission."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from penstock.resources.admission import Admission, KindAdmission
from penstock.resources.sources import apiserversource, containersource, pingsource, sinkbinding
from penstock.resources.sources.apiserversource import defaults as apiserversource_defaults
from penstock.resources.sources.apiserversource import validation as apiserversource_validation
from penstock.resources.sources.containersource import defaults as containersource_defaults
from penstock.resources.sources.containersource import validation as containersource_validation
from penstock.resources.sources.pingsource import defaults as pingsource_defaults
from penstock.resources.sources.pingsource import validation as pingsource_validation
from penstock.resources.sources.sinkbinding import defaults as sinkbinding_defaults
from penstock.resources.sources.sinkbinding import validation as sinkbinding_validation

GROUP = "sources.knative.dev"

PACKAGES: tuple[ModuleType, ...] = (pingsource, apiserversource, containersource, sinkbinding)

ADMISSION: Mapping[tuple[str, str], Admission] = {
    (GROUP, "PingSource"): KindAdmission(GROUP, pingsource_defaults.fill, pingsource_validation.check),
    (GROUP, "ApiServerSource"): KindAdmission(GROUP, apiserversource_defaults.fill, apiserversource_validation.check),
    (GROUP, "ContainerSource"): KindAdmission(GROUP, containersource_defaults.fill, containersource_validation.check),
    (GROUP, "SinkBinding"): KindAdmission(GROUP, sinkbinding_defaults.fill, sinkbinding_validation.check),
}

PING_CONFIG_MAP = pingsource_validation.CONFIG_MAP
PING_SIZE_KEY = pingsource_validation.SIZE_KEYS[0]
PING_UNLIMITED = pingsource_validation.UNLIMITED
