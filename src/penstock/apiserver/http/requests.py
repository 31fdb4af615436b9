"""Parsing of requests: the resource of the path, the query, the body, and the accepted form of the response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml
from starlette.requests import Request

from penstock.apiserver import errors
from penstock.apiserver.documents import decode
from penstock.apiserver.http.request_info import RequestInfo
from penstock.apiserver.kinds.registry import Registry, ServedKind
from penstock.apiserver.protobuf import json_form
from penstock.apiserver.verbs import patches
from penstock.apiserver.verbs.deletion import DeleteOptions
from penstock.kube.kinds import Obj
from penstock.runtime.yaml_files import SAFE_LOADER

MAX_BODY_BYTES = 3 * 1024 * 1024
MAX_VALUES = 250_000
"""In one body. The cost of a write grows with them, and writes are serialized: a real object of three megabytes has
some tens of thousands, one crafted to block other writes could have a million."""
MAX_WHOLE = 2**63
MAX_YAML_VALUES = 100_000
"""Lower, since YAML is parsed a hundred times more slowly than JSON; kubectl sends JSON."""
DRAIN_BYTES = 64 * 1024 * 1024
"""How much of an oversized body is read and dropped, so that the client reads the response."""


@dataclass(frozen=True)
class ResourcePath:
    """The resource, object or subresource that a path names."""

    kind: ServedKind
    namespace: str | None
    """None: all namespaces, or a cluster-scoped kind."""
    name: str = ""
    subresource: str = ""


def locate(info: RequestInfo, registry: Registry) -> ResourcePath:
    """The resource of a request among the served kinds; raises 404."""
    kind = registry.find(info.group, info.version, info.resource) if info.resource else None
    if kind is None or len(info.parts) > 3 or (info.namespace is not None and not kind.namespaced):
        raise errors.no_such_path()
    if info.subresource and info.subresource not in kind.subresources:
        raise errors.no_such_path()
    if info.name and kind.namespaced and info.namespace is None:
        raise errors.no_such_path()
    return ResourcePath(kind, info.namespace, info.name, info.subresource)


@dataclass(frozen=True)
class Form:
    """The form of the response."""

    shape: str = "Object"
    """`Object`, `Table` or `PartialObjectMetadata`."""
    yaml: bool = False
    discovery: str = ""
    """Version of aggregated discovery, if that is accepted."""


def accepted_form(header: str | None) -> Form:
    """The first form in an `Accept` header that the server can give; raises 406."""
    for part in (header or "application/json").split(","):
        media, *pairs = (piece.strip() for piece in part.split(";"))
        parameters = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        if media not in ("application/json", "application/yaml", "application/*", "*/*", "text/plain", ""):
            continue
        wanted = parameters.get("as", "")
        if parameters.get("g") == "apidiscovery.k8s.io":
            if parameters.get("v") in ("v2", "v2beta1"):
                return Form(discovery=parameters["v"])
            continue
        if wanted and (parameters.get("g"), parameters.get("v")) != ("meta.k8s.io", "v1"):
            continue
        if wanted in ("", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form(wanted.removesuffix("List") or "Object", media == "application/yaml")
    raise errors.ApiError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml, "
        "application/json;stream=watch",
    )


async def read_body(request: Request) -> bytes:
    """The body; raises 413 if it is over the limit, without ever holding more than that."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= MAX_BODY_BYTES:
            chunks.append(chunk)
        else:
            chunks.clear()
        if size > DRAIN_BYTES:
            break
    if size > MAX_BODY_BYTES:
        raise errors.too_large(MAX_BODY_BYTES)
    return b"".join(chunks)


def media_type(request: Request) -> str:
    """The type of the body, without parameters."""
    return request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()


def parse_document(body: bytes, media: str) -> Any:
    """The value of a JSON or YAML body; raises 400, 413 or 415."""
    whole = [_parse(body, media)]
    _check_values(whole)
    return whole[0]


def _check_values(value: Any) -> None:
    """Raises 413 if there are too many values. Changes numbers such as 30.0 to integers, as Go writes them: typed
    clients fail to read a whole list if one object has a float where they expect an integer."""
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        count += len(one)
        if count > MAX_VALUES:
            raise errors.too_many_values(MAX_VALUES)
        for key, item in one.items() if isinstance(one, dict) else enumerate(one):
            if isinstance(item, dict | list):
                waiting.append(item)
            elif isinstance(item, float) and item.is_integer() and abs(item) < MAX_WHOLE:
                one[key] = int(item)


def _parse(body: bytes, media: str) -> Any:
    if media in ("application/json", "", patches.MERGE, patches.JSON, patches.STRATEGIC):
        try:
            return decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise errors.bad_request(f"the body of the request is not valid JSON: {error}") from None
    if media in ("application/yaml", "text/yaml", "application/x-yaml", patches.APPLY):
        return _parse_yaml(body)
    if media == json_form.MEDIA:
        return json_form.parse(body)
    raise errors.unsupported_media("application/json, application/yaml")


def parse_object(body: bytes, media: str) -> Obj:
    """The object in a body; raises 400 if it is something else."""
    value = parse_document(body, media)
    if not isinstance(value, dict):
        raise errors.bad_request("the body of the request is not an object")
    if value.get("metadata", {}) is None:
        del value["metadata"]  # null means absent; removed here, so that no later code has to handle it
    if not isinstance(value.get("metadata"), dict | None):
        raise errors.bad_request("metadata is not an object")
    return value


class _Loader(SAFE_LOADER):  # type: ignore[misc,valid-type]  # in C if available
    """Loads YAML as JSON: timestamps stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _parse_yaml(body: bytes) -> Any:
    try:
        return decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    try:
        for count, event in enumerate(yaml.parse(body, _Loader)):
            # A few hundred bytes of aliases can expand to gigabytes, and no client needs them in a request.
            if isinstance(event, yaml.AliasEvent):
                raise errors.bad_request("YAML aliases are not accepted in requests")
            if count > MAX_YAML_VALUES:
                raise errors.too_many_values(MAX_YAML_VALUES)
        value = yaml.load(body, _Loader)  # noqa: S506  # a safe loader without timestamps
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise errors.bad_request(f"the body of the request is not valid YAML: {error}") from None
    if not _is_json(value):
        raise errors.bad_request("the YAML has values or keys that JSON cannot express")
    return value


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(_is_json(item) for item in value)
    return value is None or isinstance(value, str | int | float | bool)


def dry_run(query: Mapping[str, str]) -> bool:
    """Whether it is a dry run; raises 400 for a value other than All."""
    value = query.get("dryRun", "")
    if value not in ("", "All"):
        raise errors.bad_request(f'Invalid value: "{value}": supported values: "All"')
    return value == "All"


def field_validation(query: Mapping[str, str]) -> str:
    """`Strict`, `Warn` (the default) or `Ignore`."""
    value = query.get("fieldValidation") or "Warn"
    if value not in ("Strict", "Warn", "Ignore"):
        raise errors.bad_request(
            f'fieldValidation: Unsupported value: "{value}": supported values: Ignore, Strict, Warn'
        )
    return value


def whole_number(query: Mapping[str, str], name: str) -> int | None:
    """A number in the query, not negative; raises 400."""
    text = query.get(name)
    if text in (None, ""):
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise errors.bad_request(f'{name}: Invalid value: "{text}": must be a whole number')
    return int(text)


def delete_options(body: bytes, media: str, query: Mapping[str, str]) -> tuple[DeleteOptions, bool]:
    """The options of a delete, in the body or the query; and whether it is a dry run."""
    given: Obj = parse_object(body, media) if body.strip() else {}
    policy = given.get("propagationPolicy") or query.get("propagationPolicy")
    orphan = given.get("orphanDependents", query.get("orphanDependents"))
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan in (True, "true") else "Background"
    policy = policy or "Background"
    if policy not in ("Background", "Foreground", "Orphan"):
        raise errors.bad_request(f'propagationPolicy: Unsupported value: "{policy}"')
    grace = given.get("gracePeriodSeconds")
    if grace is None:
        grace = whole_number(query, "gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise errors.bad_request("gracePeriodSeconds is not a number")
    conditions = given.get("preconditions") or {}
    if not isinstance(conditions, dict):
        raise errors.bad_request("preconditions is not an object")
    options = DeleteOptions(policy, grace, conditions.get("uid"), conditions.get("resourceVersion"))
    return options, given.get("dryRun") == ["All"] or dry_run(query)
