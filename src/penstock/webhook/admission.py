"""What the webhook answers: the defaults and rules of `penstock.resources`, the same that the embedded API applies.

Brokers of a class that is not served here belong to somebody else's controller and are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import structlog

from penstock.kube.kinds import Obj
from penstock.resources import features
from penstock.resources.admission import SYSTEM_NAMESPACE, Admission, AdmissionContext, AdmissionDenied, EventOrigin
from penstock.resources.admission import annotations_of as _annotations
from penstock.resources.broker import CLASS_ANNOTATION
from penstock.resources.registry import ADMISSION
from penstock.settings import Settings
from penstock.webhook.reviews import Review, allowed, denied

log = structlog.get_logger()

MaySubscribe = Callable[[Obj, EventOrigin], bool]
"""Whether a user, as the API server names it, has the verb `knsubscribe` on a Broker or channel. Blocks. Raises
AccessUnknown."""


class Judge:
    """Fills in defaults and validates, with the ConfigMaps as they are now."""

    def __init__(
        self,
        settings: Settings,
        may_subscribe: MaySubscribe,
        admissions: Mapping[tuple[str, str], Admission] = ADMISSION,
    ) -> None:
        self._settings, self._may_subscribe, self._admissions = settings, may_subscribe, admissions
        self._configmaps: Mapping[str, Mapping[str, str]] = {}

    def configure(self, configmaps: Iterable[Obj]) -> None:
        """Takes the ConfigMaps that defaults and features come from."""
        self._configmaps = {one["metadata"]["name"]: one.get("data") or {} for one in configmaps}

    def default(self, review: Review) -> Obj:
        """The answer with the defaults as a patch."""
        admission = self._admission(review)
        if admission is None or review.obj is None:
            return allowed(review)
        try:
            filled = admission.default(review.obj, self._context(review))
        except (AttributeError, TypeError, KeyError):
            # The schema is checked after this: it refuses what has the wrong shape, and says where.
            log.info("an object without the shape of its kind was left to its schema", kind=review.kind)
            return allowed(review)
        return allowed(review, result=filled)

    def validate(self, review: Review) -> Obj:
        """The answer that lets pass or refuses, in the words of the kind."""
        admission = self._admission(review)
        if admission is None or review.obj is None:
            return allowed(review)
        context = self._context(review)
        try:
            admission.validate(review.obj, review.old, context)
        except AdmissionDenied as refusal:
            return denied(review, f"validation failed: {refusal.message}")
        return allowed(review, warnings=context.warnings)

    def validate_features(self, review: Review) -> Obj:
        """The answer about `config-features`: refuses promises that would not be kept, warns of what has no effect."""
        place = (review.group, review.kind, review.namespace, review.name)
        if not review.stores_an_object or place != ("", "ConfigMap", SYSTEM_NAMESPACE, features.CONFIG_MAP):
            return allowed(review)
        data = (review.obj or {}).get("data") or {}
        refused = self._unencryptable(data)
        if refused:
            return denied(review, f"validation failed: {'; '.join(refused)}")
        return allowed(review, warnings=features.warnings(data))

    def _unencryptable(self, data: Mapping[str, str]) -> list[str]:
        """On a cluster every ingress has a data folder of its own: its own authority would be known to nobody."""
        if features.transport(data) == "disabled" or self._settings.tls_cert_file is not None:
            return []
        name = features.TRANSPORT_ENCRYPTION
        return [f'feature "{name}" cannot be "{data[name]}": tls_cert_file, tls_key_file and tls_ca_file are not set']

    def _admission(self, review: Review) -> Admission | None:
        if not review.stores_an_object or self._is_somebody_elses(review):
            return None
        return self._admissions.get((review.group, review.kind))

    def _is_somebody_elses(self, review: Review) -> bool:
        """Whether the object is, and was, a Broker of a class that is not served here."""
        if (review.group, review.kind) != ("eventing.knative.dev", "Broker"):
            return False
        classes = [_annotations(one).get(CLASS_ANNOTATION) for one in (review.obj, review.old) if one is not None]
        return all(one and one not in self._settings.broker_classes for one in classes)

    def _context(self, review: Review) -> AdmissionContext:
        return AdmissionContext(
            user=review.user,
            namespace=review.namespace,
            configmaps=self._configmaps,
            settings=self._settings,
            operation=review.operation,
            old=review.old,
            may_subscribe=partial(self._may_subscribe, review.user_info),
        )
