"""All sources: their controllers, the runners of PingSources and ApiServerSources, the connections to their sinks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from penstock.controllers.reconciler import Reconciler, ReconcilerContext
from penstock.controllers.reconcilers.apiserversource import ApiServerSourceReconciler
from penstock.controllers.reconcilers.containersource import ContainerSourceReconciler
from penstock.controllers.reconcilers.pingsource import PingSourceReconciler
from penstock.controllers.reconcilers.sinkbinding import SinkBindingReconciler
from penstock.controllers.tracker import Observer
from penstock.destinations import Destinations
from penstock.sources.deliveries import Sinks

if TYPE_CHECKING:
    from penstock.oidc.tokens import AccountTokens, Issued, TokenRequests


class Sources:
    """All sources of one control plane."""

    def __init__(
        self, context: ReconcilerContext, enqueue: Callable[[Observer], None], trusted: Callable[[], str] = str
    ) -> None:
        """`trusted` returns certificate authorities, in PEM, that are trusted for every sink."""
        self._settings = context.settings
        self._group: asyncio.TaskGroup | None = None
        self._tokens: AccountTokens | None = None
        self._requests: TokenRequests | None = None
        destinations = Destinations(context.settings)
        self._sinks = Sinks(context.publisher.locate, self._token, destinations=destinations, trusted=trusted)
        self._pings = PingSourceReconciler(context, enqueue, self._sinks)
        self._watches = ApiServerSourceReconciler(context, enqueue, self._sinks)
        self.reconcilers: list[Reconciler] = [
            self._pings,
            self._watches,
            ContainerSourceReconciler(context),
            SinkBindingReconciler(context, enqueue, trusted, self._issued),
        ]

    async def run(self) -> None:
        """Runs them until cancelled. Start it after the first pass of the reconcilers."""
        try:
            async with self._sinks, asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._pings.runner.run(), name="PingSources")
                group.create_task(self._watches.run(), name="ApiServerSources")
        finally:
            if self._requests is not None:
                await self._requests.close()

    async def _token(self, namespace: str, account: str, audience: str) -> str:
        """A token of the source's ServiceAccount for the audience. Raises NoToken."""
        from penstock.oidc.tokens import AccountTokens, WantedToken

        if self._tokens is None:
            self._tokens = AccountTokens(self._token_requests(), self._start)
        return await self._tokens.token(WantedToken(namespace, account, audience))

    async def _issued(self, namespace: str, account: str, audience: str) -> Issued:
        """A new token of a SinkBinding's ServiceAccount. Raises NoToken."""
        from penstock.oidc.tokens import WantedToken

        return await self._token_requests()(WantedToken(namespace, account, audience))

    def _token_requests(self) -> TokenRequests:
        from penstock.oidc.tokens import TokenRequests

        if self._requests is None:
            self._requests = TokenRequests(self._settings)
        return self._requests

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        if self._group is None:
            raise RuntimeError("a source sends before `run` was called")
        return self._group.create_task(work, name=name)
