"""Certificates as somebody else would make them, for tests: of servers, and of clients."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.web.certificates import KeyPair, make_authority

DAY = timedelta(days=1)


def authority(name: str) -> KeyPair:
    """One that signs others."""
    return make_authority(name, DAY, datetime.now(UTC))


def client_of(signer: KeyPair, name: str, own_key: rsa.RSAPrivateKey | None = None) -> KeyPair:
    """A certificate by which a client says who it is, and its key."""
    key, now = own_key or ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    own = serialization.load_pem_private_key(signer.key, None)
    assert isinstance(own, ec.EllipticCurvePrivateKey)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.load_pem_x509_certificate(signer.certificate).subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own.public_key()), critical=False)
        .sign(own, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(made.public_bytes(serialization.Encoding.PEM), pem)
