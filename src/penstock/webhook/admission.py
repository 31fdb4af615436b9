"""Responses to admission reviews: the defaults and rules of `penstock.resources`, the same as in the embedded API.

Brokers of a class that is not served here belong to another controller and are allowed as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import structlog

from penstock.kube.kinds import Obj
from penstock.resources import features
from penstock.resources.admission import (
    SYSTEM_NAMESPACE,
    Admission,
    AdmissionContext,
    AdmissionDenied,
    EventOrigin,
    annotations_of,
)
from penstock.resources.broker import CLASS_ANNOTATION
from penstock.resources.registry import ADMISSION
from penstock.settings import Settings
from penstock.webhook.reviews import Review, allowed, denied

log = structlog.get_logger()

MaySubscribe = Callable[[Obj, EventOrigin], bool]
"""Whether a user, as the API server names it, has the verb `knsubscribe` on a Broker or channel. Blocks the thread.
Raises AccessUnknown."""


class AdmissionHandler:
    """Defaults and validates objects, with the current ConfigMaps."""

    def __init__(
        self,
        settings: Settings,
        may_subscribe: MaySubscribe,
        admissions: Mapping[tuple[str, str], Admission] = ADMISSION,
    ) -> None:
        self._settings, self._may_subscribe, self._admissions = settings, may_subscribe, admissions
        self._configmaps: Mapping[str, Mapping[str, str]] = {}

    def configure(self, configmaps: Iterable[Obj]) -> None:
        """Sets the ConfigMaps with defaults and features."""
        self._configmaps = {one["metadata"]["name"]: one.get("data") or {} for one in configmaps}

    def default(self, review: Review) -> Obj:
        """The response with the defaults as a patch."""
        admission = self._admission(review)
        if admission is None or review.obj is None:
            return allowed(review)
        try:
            filled = admission.default(review.obj, self._context(review))
        except (AttributeError, TypeError, KeyError):
            # The API server validates the schema after mutating webhooks, and reports the path of a wrong field.
            log.info("not defaulting an object that does not fit its schema", kind=review.kind)
            return allowed(review)
        return allowed(review, result=filled)

    def validate(self, review: Review) -> Obj:
        """The response that allows the object, or denies it with the message of the kind."""
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
        """The response about `config-features`: denies features that cannot work, warns about those without effect."""
        target = (review.group, review.kind, review.namespace, review.name)
        if not review.stores_an_object or target != ("", "ConfigMap", SYSTEM_NAMESPACE, features.CONFIG_MAP):
            return allowed(review)
        data = (review.obj or {}).get("data") or {}
        refused = self._unencryptable(data)
        if refused:
            return denied(review, f"validation failed: {'; '.join(refused)}")
        return allowed(review, warnings=features.warnings(data))

    def _unencryptable(self, data: Mapping[str, str]) -> list[str]:
        """Faults of transport encryption. On a cluster every ingress has its own data folder, so no client could trust
        certificates of its authority: files with certificates are needed."""
        if features.transport(data) == "disabled" or self._settings.tls_cert_file is not None:
            return []
        name = features.TRANSPORT_ENCRYPTION
        return [f'feature "{name}" cannot be "{data[name]}": tls_cert_file, tls_key_file and tls_ca_file are not set']

    def _admission(self, review: Review) -> Admission | None:
        if not review.stores_an_object or self._has_foreign_class(review):
            return None
        return self._admissions.get((review.group, review.kind))

    def _has_foreign_class(self, review: Review) -> bool:
        """Whether the object is, and was, a Broker of a class that is not served here."""
        if (review.group, review.kind) != ("eventing.knative.dev", "Broker"):
            return False
        classes = [annotations_of(one).get(CLASS_ANNOTATION) for one in (review.obj, review.old) if one is not None]
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
