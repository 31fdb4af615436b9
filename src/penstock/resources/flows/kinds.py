"""The kinds of this room: their definitions and their admission."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.resources.admission import Admission, KindAdmission
from penstock.resources.flows import parallel, sequence
from penstock.resources.flows.parallel import defaults as parallel_defaults
from penstock.resources.flows.parallel import validation as parallel_validation
from penstock.resources.flows.sequence import defaults as sequence_defaults
from penstock.resources.flows.sequence import validation as sequence_validation

GROUP = "flows.knative.dev"

PACKAGES = (sequence, parallel)

ADMISSION: Mapping[tuple[str, str], Admission] = {
    (GROUP, "Sequence"): KindAdmission(GROUP, sequence_defaults.fill, sequence_validation.check),
    (GROUP, "Parallel"): KindAdmission(GROUP, parallel_defaults.fill, parallel_validation.check),
}
