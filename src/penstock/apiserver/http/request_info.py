"""What a request is about, parsed from its method, path and query once: for authorization, routing and the audit log.

Parsed twice, a request could be authorized as one thing and executed as another. Whether a resource is served is not
checked here: users without access get the same error for resources that exist and for those that do not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import parse_qs

from starlette.types import Scope

from penstock.apiserver.access.rules import AccessRequest
from penstock.apiserver.errors import ApiError
from penstock.apiserver.http.selectors import exact_name, parse_fields

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
_RELEVANT = re.compile(r"%|watch=|fieldSelector=")
_STATE = "request_info"


@dataclass(frozen=True)
class RequestInfo:
    """A request to a resource, or to another path."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str | None = None
    """The namespace in the path; None for all namespaces, cluster-scoped kinds, and namespaces themselves."""
    parts: tuple[str, ...] = ()
    """Resource, name, subresource and further segments; empty for a path that is not a resource."""
    field_selector: str = ""
    """Of a list, a watch or the deletion of a collection."""

    @property
    def resource(self) -> str:
        """The plural name of the kind; empty for a path that is not a resource."""
        return self.parts[0] if self.parts else ""

    @property
    def name(self) -> str:
        """Of the object; empty for a collection."""
        return self.parts[1] if len(self.parts) > 1 else ""

    @property
    def subresource(self) -> str:
        """`status`, say; empty for the object itself."""
        return self.parts[2] if len(self.parts) > 2 else ""

    @cached_property
    def access(self) -> AccessRequest:
        """What the user must be allowed to do."""
        if not self.parts:
            return AccessRequest(self.verb, path=self.path)
        namespace = self.namespace or ""
        if self.group == "" and self.resource == "namespaces" and self.namespace is None:
            # As in Kubernetes, a namespace counts as inside itself, so that a Role in it can allow to read it.
            namespace = self.name
        name = self.name or self._selected_name()
        return AccessRequest(self.verb, self.group, self.resource, self.subresource, namespace, name)

    def _selected_name(self) -> str:
        """The one name that the field selector leaves, so that rules with resource names hold for collections."""
        try:
            return exact_name(parse_fields(self.field_selector)) or ""
        except ApiError:
            return ""  # the invalid selector is refused later, for every user


def request_info(scope: Scope) -> RequestInfo:
    """The info of the request, parsed once and kept in its state."""
    state = scope.setdefault("state", {})
    if _STATE not in state:
        query = scope.get("query_string", b"").decode("latin-1")
        state[_STATE] = parse_request(scope["method"], scope["path"], query)
    info: RequestInfo = state[_STATE]
    return info


def parse_request(method: str, path: str, query: str) -> RequestInfo:
    """What a request is about."""
    parts = tuple(part for part in path.split("/") if part)
    if parts[:1] == ("api",) and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ("apis",) and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method.lower(), path)
    namespace: str | None = None
    # `namespaces/x` is the namespace itself; with a third part that is a kind it is the kind inside.
    if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    verb, selector = _VERBS.get(method, method.lower()), ""
    if verb in ("get", "delete"):
        # The query is parsed only if it may change the verb or the name.
        options = parse_qs(query, keep_blank_values=True) if _RELEVANT.search(query) else {}
        if verb == "get" and len(rest) < 3 and options.get("watch", [""])[-1] in ("true", "1"):
            verb = "watch"
        elif len(rest) < 2:
            verb = "list" if verb == "get" else "deletecollection"
        selector = options.get("fieldSelector", [""])[-1]
    return RequestInfo(verb, path, group, version, namespace, rest, selector)
