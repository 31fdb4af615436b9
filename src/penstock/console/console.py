"""The state shared by all pages: settings, sessions, API clients by token, objects and numbers."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from typing import Any

from starlette.requests import Request

from penstock.console.map.graph import RecentObjects
from penstock.console.numbers import Numbers, source_of
from penstock.console.sessions import LoginLinks, Session, Sessions, TokenOwner
from penstock.operations.cluster_api import ClusterApi, Resource
from penstock.operations.installation import Installation
from penstock.settings import Settings

MOST_CLIENTS = 50
"""Cached API clients, one for each token."""

SELF_REVIEWS = Resource("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", False)
ACCESS_REVIEWS = Resource("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False)
OPERATED = ("eventing.knative.dev", "messaging.knative.dev")
"""API groups on which an operator has all permissions: the pages show events of Brokers and of channels."""


class OperatorsOnly(Exception):
    """The page is for operators only."""


class Console:
    """The state of the console while it runs."""

    def __init__(self, settings: Settings, stopping: asyncio.Event) -> None:
        self.settings, self.stopping = settings, stopping
        self.installation = Installation(
            "this penstock",
            settings.kubeconfig or settings.data_dir / "kubeconfig",
            root=settings.data_dir,
            settings=settings,
        )
        self.sessions = Sessions(settings.console_port, self.owner_of)
        self.links = LoginLinks()
        self.objects = RecentObjects()
        self.numbers = Numbers(source_of(settings), stopping)
        self._clients: OrderedDict[str, ClusterApi] = OrderedDict()
        self._lock = threading.Lock()

    def session(self, request: Request) -> Session | None:
        """The session of the request, if any."""
        found: Session | None = getattr(request.state, "session", None)
        return found

    def api(self, request: Request) -> ClusterApi:
        """The Kubernetes API with the token of the session. It is shared, do not close it. Blocks."""
        session = self.session(request)
        if session is None:
            raise OperatorsOnly
        return self.api_of(session.token)

    def api_of(self, token: str) -> ClusterApi:
        """The API with a token."""
        with self._lock:
            if token not in self._clients:
                self._clients[token] = ClusterApi(self.installation, token=token)
            self._clients.move_to_end(token)
            while len(self._clients) > MOST_CLIENTS:
                self._clients.popitem(last=False)
            return self._clients[token]

    def close(self) -> None:
        """Closes the connections to the API."""
        with self._lock:
            while self._clients:
                self._clients.popitem()[1].close()

    def only_operators(self, request: Request) -> None:
        """For pages that RBAC does not cover: events, logs, processes. Raises OperatorsOnly."""
        session = self.session(request)
        if session is None or not session.owner.is_operator:
            raise OperatorsOnly

    def owner_of(self, token: str) -> TokenOwner:
        """Asks the API whose token it is. Raises UserError; UnknownToken for a token that is not valid."""
        with ClusterApi(self.installation, token=token) as api:
            review = _reviewed(api, SELF_REVIEWS, {})
            user: dict[str, Any] = (review.get("status") or {}).get("userInfo") or {}
            attributes = [{"group": group, "resource": "*", "verb": "*"} for group in OPERATED]
            reviews = [_reviewed(api, ACCESS_REVIEWS, {"spec": {"resourceAttributes": one}}) for one in attributes]
        is_operator = all((review.get("status") or {}).get("allowed") for review in reviews)
        return TokenOwner(str(user.get("username") or ""), is_operator)


def _reviewed(api: ClusterApi, kind: Resource, content: dict[str, Any]) -> dict[str, Any]:
    return api.create(kind, "", {"apiVersion": kind.api_version, "kind": kind.kind, **content})


def console_of(request: Request) -> Console:
    """The console of the application that handles the request."""
    found: Console = request.app.state.console
    return found
