"""Asks the Kubernetes API for a Secret, with the credentials that deliveries get their tokens by."""

from __future__ import annotations

from typing import NamedTuple

import httpx2

from penstock.kube.paths import NotASegment, api_path
from penstock.oidc.api_client import NoAccess, api_client, message_of
from penstock.resources.secrets.content import MalformedSecret, content_of
from penstock.settings import Settings


class SecretPlace(NamedTuple):
    """Which Secret."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class NoSecret(Exception):  # it is asked for again
    """The Secret cannot be had, or is of no use; the text says why."""


class SecretRequests:
    """A connection to the API, made when the first Secret is needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: httpx2.AsyncClient | None = None

    async def __call__(self, place: SecretPlace) -> dict[str, bytes]:
        """What the Secret holds. Raises NoSecret."""
        try:
            path = api_path("v1", "secrets", place.namespace, place.name)
            if self._client is None:
                self._client = api_client(self._settings)
            answer = await self._client.get(path)
            if answer.status_code >= 300:
                raise NoSecret(f"the Secret {place} cannot be read: {message_of(answer)}")
            return content_of(answer.json())
        except (NoAccess, NotASegment, httpx2.HTTPError) as error:
            raise NoSecret(f"the Secret {place} cannot be read: {error or type(error).__name__}") from error
        except (ValueError, TypeError, AttributeError) as error:
            # What could not be read is not shown: it may be the Secret.
            problem = str(error) if isinstance(error, MalformedSecret) else "the answer of the API is none"
            raise NoSecret(f"the Secret {place} cannot be read: {problem}") from None

    async def close(self) -> None:
        """Ends its connections."""
        if self._client is not None:
            await self._client.aclose()
