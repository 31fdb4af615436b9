"""An issuer with keys, and the time, for tests of tokens."""

from __future__ import annotations

from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from penstock.oidc.issuers import Fetched, Issuers, NotFetched, read_keys
from penstock.oidc.verifier import Verifier

OWN = "https://kubernetes.default.svc.cluster.local"
OTHER = "https://issuer.example"
AUDIENCE = "eventing.knative.dev/broker/shop/orders"
TILL = "system:serviceaccount:shop:till"
NOW = 1_800_000_000.0

CURVE = ec.generate_private_key(ec.SECP256R1())
NEXT_CURVE = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)


def listed(kid: str, key: Any) -> dict[str, Any]:
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {"kid": kid, "use": "sig", **algorithm.to_jwk(key.public_key(), as_dict=True)}


class World:
    """Two issuers, what they tell when they are asked, and a clock."""

    def __init__(self) -> None:
        self.now = NOW
        self.asked = 0
        self.answers = True
        self.keys = {OWN: [listed("a", CURVE)], OTHER: [listed("r", RSA)]}
        self.issuers = Issuers({OWN: lambda: self._fetch(OWN), OTHER: lambda: self._fetch(OTHER)}, lambda: self.now)
        self.verifier = Verifier(self.issuers, lambda: self.now)

    async def _fetch(self, issuer: str) -> Fetched:
        self.asked += 1
        if not self.answers:
            raise NotFetched("it sleeps")
        return Fetched(issuer, read_keys({"keys": self.keys[issuer]}))

    def token(self, key: Any = CURVE, kid: str | None = "a", algorithm: str = "ES256", **claims: Any) -> str:
        said = {"iss": OWN, "sub": TILL, "aud": [AUDIENCE], "exp": NOW + 600, "nbf": NOW, **claims}
        headers = {} if kid is None else {"kid": kid}
        kept = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(kept, key, algorithm=algorithm, headers=headers)
