"""Certificates that penstock creates: its own certificate authority, and server certificates signed by it.

Pure functions: PEM in, PEM out, the time is an argument. Callers store the certificates.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_BLOCK = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)

CLOCKS_DIFFER = timedelta(minutes=5)
"""A certificate is valid from this long before its creation, since clocks of other machines may be behind."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


def make_authority(name: str, lasts: timedelta, now: datetime) -> KeyPair:
    """A new authority that may sign server certificates, but no other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    made = (
        _begun(subject, subject, key, lasts, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(made.public_bytes(serialization.Encoding.PEM), _pem(key))


def issue_certificate(authority: KeyPair, name: str, hosts: Iterable[str], lasts: timedelta, now: datetime) -> KeyPair:
    """A certificate for a server of these host names and addresses. Raises ValueError if the key is of another kind."""
    signer = serialization.load_pem_private_key(authority.key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the certificate authority is not one that penstock created")
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(authority.certificate).subject
    made = (
        _begun(_named(name), issuer, key, lasts, now)
        .add_extension(x509.SubjectAlternativeName(alternatives(hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return KeyPair(made.public_bytes(serialization.Encoding.PEM), _pem(key))


class NotAPair(ValueError):
    """A certificate and a key that do not belong together; the text shows nothing of the key."""


def check_pair(pair: KeyPair) -> None:
    """Raises NotAPair unless the first certificate of the chain is that of the key."""
    try:
        certificate = x509.load_pem_x509_certificates(pair.certificate)[0]
    except ValueError as error:
        raise NotAPair("the certificate is not in PEM") from error
    try:
        key = serialization.load_pem_private_key(pair.key, None)
    except TypeError as error:
        raise NotAPair("the key has a passphrase") from error
    except (ValueError, UnsupportedAlgorithm):
        raise NotAPair("the key is not in PEM") from None
    plain = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if certificate.public_key().public_bytes(*plain) != key.public_key().public_bytes(*plain):
        raise NotAPair("the certificate is that of another key")


def certificates_in(text: str) -> tuple[list[str], bool]:
    """The certificates of a PEM bundle, and whether there are any and all of them are valid. Other text is ignored."""
    found, whole = [], True
    for block in _BLOCK.findall(text):
        try:
            one = x509.load_pem_x509_certificate(block.encode())
        except ValueError:
            whole = False
            continue
        found.append(one.public_bytes(serialization.Encoding.PEM).decode())
    return found, whole and bool(found)


def is_signed_by(certificate: bytes, authority: bytes) -> bool:
    """Whether the certificate is signed by the authority; its times are not checked."""
    try:
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def lasts_for(certificate: bytes, span: timedelta, now: datetime) -> bool:
    """Whether the certificate is still valid after this time span."""
    try:
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc - now > span
    except ValueError:
        return False


def names_all(certificate: bytes, hosts: Iterable[str]) -> bool:
    """Whether the certificate is for each of these hosts."""
    try:
        extensions = x509.load_pem_x509_certificate(certificate).extensions
        named = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    return set(alternatives(hosts)) <= set(named)


def alternatives(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Host names and addresses as a certificate carries them."""
    return [_alternative(host) for host in dict.fromkeys(hosts)]


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: timedelta, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + lasts)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
