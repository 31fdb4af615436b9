"""The errors of the API, as Kubernetes `Status` objects with the code and reason that clients act on."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """A failed request; `status()` is the body of its response."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details, self.headers = details, headers or {}

    def status(self) -> dict[str, Any]:
        """The `Status` object of this error."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details is not None:
            body["details"] = self.details
        return body


MAX_COMPLAINTS = 50
"""How many complaints about one object are shown."""


def _about(group: str, plural: str, name: str) -> dict[str, Any]:
    return {key: value for key, value in (("name", name), ("group", group), ("kind", plural)) if value}


def qualified(group: str, plural: str) -> str:
    """`brokers.eventing.knative.dev`; core kinds have no group."""
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> ApiError:
    """The object does not exist."""
    message = f'{qualified(group, plural)} "{name}" not found'
    return ApiError(404, "NotFound", message, details=_about(group, plural, name))


def no_such_path() -> ApiError:
    """Nothing is served under this path."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(group: str, plural: str, name: str) -> ApiError:
    """The name is taken."""
    message = f'{qualified(group, plural)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=_about(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str) -> ApiError:
    """The write lost a race, or its precondition does not hold."""
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", message, details=_about(group, plural, name))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def apply_conflict(conflicts: list[tuple[str, str]]) -> ApiError:
    """A server-side apply wants fields that other managers own; `conflicts` holds (manager, field path)."""
    managers: dict[str, list[str]] = {}
    for manager, path in conflicts:
        managers.setdefault(manager, []).append(path)
    shown = "\n".join(
        f"conflict with {manager}: {paths[0]}"
        if len(paths) == 1
        else f"conflicts with {manager}:\n" + "\n".join(f"- {path}" for path in paths)
        for manager, paths in managers.items()
    )
    count = len(conflicts)
    message = f"Apply failed with {count} conflict{'s' if count > 1 else ''}: {shown}"
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in conflicts
    ]
    return ApiError(409, "Conflict", message, details={"causes": causes})


def invalid(group: str, kind: str, name: str, complaints: list[tuple[str, str, str]]) -> ApiError:
    """The object breaks its schema; `complaints` holds (field path, reason, sentence)."""
    more = len(complaints) - MAX_COMPLAINTS
    complaints = complaints[:MAX_COMPLAINTS]
    shown = [f"{path}: {sentence}" for path, _, sentence in complaints] + [f"and {more} more"] * (more > 0)
    joined = shown[0] if len(shown) == 1 else "[" + ", ".join(shown) + "]"
    label = f"{kind}.{group}" if group else kind
    causes = [{"reason": reason, "message": sentence, "field": path} for path, reason, sentence in complaints]
    details = {**_about(group, kind, name), "causes": causes}
    return ApiError(422, "Invalid", f'{label} "{name}" is invalid: {joined}', details=details)


def bad_request(message: str) -> ApiError:
    """The request is malformed."""
    return ApiError(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    """The user may not do this, or it is not possible now."""
    subject = f'{qualified(group, plural)} "{name}"' if name else qualified(group, plural)
    message = f"{subject} is forbidden: {why}"
    return ApiError(403, "Forbidden", message, details=_about(group, plural, name))


def terminating(group: str, plural: str, name: str, namespace: str) -> ApiError:
    """The namespace is being deleted, so nothing can be created in it; clients recognize this by the cause."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = forbidden(group, plural, name, why)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    error.details = {**(error.details or {}), "causes": [cause]}
    return error


def unauthorized() -> ApiError:
    """The request has no valid token."""
    return ApiError(401, "Unauthorized", "Unauthorized", headers={"www-authenticate": "Bearer"})


def method_not_allowed() -> ApiError:
    """The resource does not support this verb."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def not_supported(kind: str) -> ApiError:
    """Objects of this kind cannot be created, because nothing here would act on them."""
    return ApiError(405, "MethodNotAllowed", f"{kind} is not supported by this server, so that none can be created")


def too_large(limit: int) -> ApiError:
    """The body is over the limit."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def too_many_values(limit: int) -> ApiError:
    """The body has too many values."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit} values")


def unsupported_media(accepted: str) -> ApiError:
    """The resource does not accept bodies of this type."""
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return ApiError(415, "UnsupportedMediaType", message)


def expired(message: str) -> ApiError:
    """The resourceVersion or continue token is too old; the client lists again."""
    return ApiError(410, "Expired", message)


def future_version(wanted: int, current: int) -> ApiError:
    """The resourceVersion has not been reached; the client waits or lists again."""
    message = f"Too large resource version: {wanted}, current: {current}"
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiError(504, "Timeout", message, details=details, headers={"retry-after": "1"})


def too_many(message: str) -> ApiError:
    """A limit of the server is reached; the client retries later."""
    return ApiError(429, "TooManyRequests", message, details={"retryAfterSeconds": 5}, headers={"retry-after": "5"})
