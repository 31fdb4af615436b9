"""AdmissionReviews and ConversionReviews of Kubernetes: parsing of requests, and their responses. No I/O."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from penstock.kube.kinds import Obj

ADMISSION_VERSION = "admission.k8s.io/v1"
CONVERSION_VERSION = "apiextensions.k8s.io/v1"
WRITES = ("CREATE", "UPDATE")


class MalformedReview(ValueError):
    """The body is not a review; the text says why."""


@dataclass(frozen=True)
class Review:
    """The request of an AdmissionReview: an object that a user wants to store."""

    uid: str
    group: str
    kind: str
    namespace: str
    name: str
    operation: str
    user: str
    obj: Obj | None
    old: Obj | None
    subresource: str = ""
    user_info: Obj = field(default_factory=dict)
    """The user with groups, as the API server knows it."""

    @property
    def stores_an_object(self) -> bool:
        """Whether an object itself is created or changed, not a subresource; everything else is allowed."""
        return self.operation in WRITES and not self.subresource and self.obj is not None


def read_review(document: object) -> Review:
    """The review in a request's body. Raises MalformedReview."""
    request = _request(document, "AdmissionReview", ADMISSION_VERSION)
    kind = _mapping(request, "kind")
    given = request.get("userInfo")
    user = given if isinstance(given, dict) else {}
    return Review(
        uid=_text(request, "uid"),
        group=str(kind.get("group") or ""),
        kind=_text(kind, "kind", "kind.kind"),
        namespace=str(request.get("namespace") or ""),
        name=str(request.get("name") or ""),
        operation=_text(request, "operation"),
        user=str(user.get("username") or ""),
        obj=_object(request, "object"),
        old=_object(request, "oldObject"),
        subresource=str(request.get("subResource") or ""),
        user_info=user,
    )


def allowed(review: Review, *, result: Obj | None = None, warnings: Iterable[str] = ()) -> Obj:
    """The response that allows the object, changed to `result` if that is given."""
    response: Obj = {"uid": review.uid, "allowed": True}
    patch = jsonpatch.make_patch(review.obj, result) if result is not None else None
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch.to_string().encode()).decode()}
    if listed := list(warnings):
        response["warnings"] = listed
    return _response("AdmissionReview", ADMISSION_VERSION, response)


def denied(review: Review, message: str) -> Obj:
    """The response that denies the object; the API server puts the name of the webhook before the message."""
    status = {"status": "Failure", "message": message, "reason": "BadRequest", "code": 400}
    return _response("AdmissionReview", ADMISSION_VERSION, {"uid": review.uid, "allowed": False, "status": status})


def converted(document: object, conversions: Mapping[tuple[str, str], Callable[[Obj, str], Obj]]) -> Obj:
    """The response to a ConversionReview. Raises MalformedReview."""
    request = _request(document, "ConversionReview", CONVERSION_VERSION)
    uid, wanted = _text(request, "uid"), _text(request, "desiredAPIVersion")
    objects = request.get("objects")
    if not isinstance(objects, list) or not all(isinstance(one, dict) for one in objects):
        raise MalformedReview("request.objects is not a list of objects")
    results = []
    for obj in objects:
        group, kind = str(obj.get("apiVersion") or "").rpartition("/")[0], str(obj.get("kind") or "")
        convert = conversions.get((group, kind))
        if convert is None or wanted.rpartition("/")[0] != group:
            message = f"{kind} of {obj.get('apiVersion')} cannot be converted to {wanted}"
            failure = {"status": "Failure", "message": message}
            return _response("ConversionReview", CONVERSION_VERSION, {"uid": uid, "result": failure})
        results.append(convert(obj, wanted))
    response = {"uid": uid, "result": {"status": "Success"}, "convertedObjects": results}
    return _response("ConversionReview", CONVERSION_VERSION, response)


def _response(kind: str, version: str, response: Obj) -> Obj:
    return {"apiVersion": version, "kind": kind, "response": response}


def _request(document: object, kind: str, version: str) -> Obj:
    if not isinstance(document, dict):
        raise MalformedReview(f"the body is not an object; a {kind} of {version} is expected")
    if (document.get("kind"), document.get("apiVersion")) != (kind, version):
        given = f"{document.get('kind')} of {document.get('apiVersion')}"
        raise MalformedReview(f"the body is a {given}; a {kind} of {version} is expected")
    return _mapping(document, "request", "request")


def _mapping(holder: Mapping[str, Any], name: str, path: str | None = None) -> Obj:
    value = holder.get(name)
    if not isinstance(value, dict):
        raise MalformedReview(f"{path or f'request.{name}'} is not an object")
    return value


def _text(holder: Mapping[str, Any], name: str, path: str | None = None) -> str:
    value = holder.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedReview(f"request.{path or name} is missing")
    return value


def _object(request: Mapping[str, Any], name: str) -> Obj | None:
    value = request.get(name)
    if value is not None and not isinstance(value, dict):
        raise MalformedReview(f"request.{name} is not an object")
    return value
