"""A Kubernetes API that has Secrets and nothing else, and what is kept of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import cast

from penstock.dispatcher.delivery.credentials import DeliveryCredentials
from penstock.dispatcher.secrets import NoSecret, SecretCache, SecretName
from penstock.oidc.tokens import AccountTokens


@dataclass
class Kubernetes:
    """The Secrets of all namespaces."""

    secrets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """What is in them, by name."""
    problem: str = ""
    """Why it answers nothing else."""
    asked: list[SecretName] = field(default_factory=list)

    async def read(self, place: SecretName) -> dict[str, bytes]:
        self.asked.append(place)
        await asyncio.sleep(0)
        if self.problem or place.name not in self.secrets:
            raise NoSecret(self.problem or f"the Secret {place} cannot be read: not found")
        return self.secrets[place.name]

    def kept(self) -> SecretCache:
        return SecretCache(self.read, lambda work, name: asyncio.get_running_loop().create_task(work, name=name))


def no_credentials() -> DeliveryCredentials:
    """Of routes that need none."""
    return DeliveryCredentials(lambda: cast("AccountTokens", None), Kubernetes().kept())
