"""The kinds of sources.knative.dev in one place: their packages, which hold the CRDs, and their admission."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from penstock.resources.admission import Admission, KindAdmission
from penstock.resources.sources import pingsource
from penstock.resources.sources.pingsource import defaults as pingsource_defaults
from penstock.resources.sources.pingsource import validation as pingsource_validation

GROUP = "sources.knative.dev"

PACKAGES: tuple[ModuleType, ...] = (pingsource,)

ADMISSION: Mapping[tuple[str, str], Admission] = {
    (GROUP, "PingSource"): KindAdmission(GROUP, pingsource_defaults.fill, pingsource_validation.check),
}

PING_CONFIG_MAP = pingsource_validation.CONFIG_MAP
PING_SIZE_KEY = pingsource_validation.SIZE_KEYS[0]
PING_UNLIMITED = pingsource_validation.UNLIMITED
