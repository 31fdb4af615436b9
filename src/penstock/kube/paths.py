"""Paths of the Kubernetes API; no other module makes them.

A name that a user wrote becomes one segment of a path or is refused, as in client-go. HTTP clients remove `..` from
paths, so a name with it would lead to another namespace or resource.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from penstock.kube.errors import NotFound

NOT_ALLOWED = (".", "..")
NOT_WITHIN = ("/", "%")
_OF_A_KIND = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Valid groups, versions and plurals of kinds. A kind with another one cannot exist."""
SHOWN_CHARACTERS = 100


class NotASegment(NotFound):
    """A name cannot be a segment of a path, so no object has it."""


def segment_faults(name: str) -> list[str]:
    """Why a name cannot be a segment of a path, as Kubernetes words it; empty if it can."""
    if name in NOT_ALLOWED:
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in NOT_WITHIN if part in name]


def api_path(
    api_version: str,
    plural: str,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """`/api/v1/namespaces/shop/secrets/db`. None leaves a part out; an empty one is refused. Raises NotASegment."""
    path = version_path(api_version)
    if namespace is not None:
        path += f"/namespaces/{_segment('namespace', namespace)}"
    path += f"/{_segment('resource', plural)}"
    if name is not None:
        path += f"/{_segment('resource name', name)}"
    if subresource is not None:
        path += f"/{_segment('subresource', subresource)}"
    return path


def version_path(api_version: str) -> str:
    """`/api/v1`, `/apis/apps/v1`. Raises NotASegment."""
    group, slash, version = api_version.rpartition("/")
    path = f"/apis/{_segment('group', group)}" if slash else "/api"
    return f"{path}/{_segment('version', version)}"


def _segment(what: str, part: str) -> str:
    if not part:
        raise NotASegment(f"{what} may not be empty")
    if why := segment_faults(part):
        raise NotASegment(f'invalid {what} "{part}": [{" ".join(why)}]')
    if what in ("group", "version", "resource") and not _OF_A_KIND.fullmatch(part):
        raise NotASegment(f"invalid {what} {part[:SHOWN_CHARACTERS]!a}")
    try:
        return quote(part, safe=":")
    except UnicodeEncodeError:
        raise NotASegment(f"invalid {what} {part!a}: it is not valid Unicode") from None
