"""What every page works with: the settings, the API in the name of whoever looks, and the numbers."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from typing import Any

from starlette.requests import Request

from penstock.console.guard import is_loopback
from penstock.console.numbers import Numbers, source_of
from penstock.console.objects import RecentObjects
from penstock.console.sessions import LOCAL, Session, Sessions
from penstock.operations.cluster_api import ClusterApi, Resource
from penstock.operations.installation import Installation
from penstock.settings import Settings

MOST_CLIENTS = 50
"""Connections to the API that are kept, one for each token."""

SELF_REVIEWS = Resource("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", False)
ACCESS_REVIEWS = Resource("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False)


class NotForYou(Exception):
    """The page shows what only operators may see."""


class Console:
    """The state of the console while it runs."""

    def __init__(self, settings: Settings, stopping: asyncio.Event) -> None:
        self.settings, self.stopping = settings, stopping
        self.asks_for_token = self.asks(settings)
        self.installation = Installation(
            "this penstock",
            settings.kubeconfig or settings.data_dir / "kubeconfig",
            root=settings.data_dir,
            settings=settings,
        )
        self.sessions = Sessions(settings.console_port)
        self.objects = RecentObjects()
        self.numbers = Numbers(source_of(settings), stopping)
        self._clients: OrderedDict[str | None, ClusterApi] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def asks(settings: Settings) -> bool:
        """Whether it wants a token before it shows anything."""
        return not is_loopback(settings.host) if settings.console_login is None else settings.console_login

    def session(self, request: Request) -> Session | None:
        """Who looks; None where that has to be asked first."""
        return self.sessions.of(request) if self.asks_for_token else LOCAL

    def api(self, request: Request) -> ClusterApi:
        """The Kubernetes API in the name of whoever sent the request. Shared: leave it open. Blocks: for threads."""
        session = self.session(request)
        if session is None:
            raise NotForYou
        return self.api_of(session.token)

    def api_of(self, token: str | None) -> ClusterApi:
        """The API by a token; None: by the console's own credentials."""
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
        """For pages whose content no rule of the API guards: events, logs, processes. Raises NotForYou."""
        session = self.session(request)
        if session is None or not session.is_operator:
            raise NotForYou

    def who(self, token: str) -> tuple[str, bool]:
        """Name of a token's user, and whether they may see everything. Raises Problem for a token nobody knows."""
        api = ClusterApi(self.installation, token=token)
        with api:
            review = api.create(SELF_REVIEWS, "", {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind})
            user: dict[str, Any] = (review.get("status") or {}).get("userInfo") or {}
            asked = {"group": "eventing.knative.dev", "resource": "*", "verb": "*"}
            access = api.create(
                ACCESS_REVIEWS,
                "",
                {
                    "apiVersion": ACCESS_REVIEWS.api_version,
                    "kind": ACCESS_REVIEWS.kind,
                    "spec": {"resourceAttributes": asked},
                },
            )
        return str(user.get("username") or ""), bool((access.get("status") or {}).get("allowed"))


def console_of(request: Request) -> Console:
    """The console that a request reached."""
    found: Console = request.app.state.console
    return found
