"""The certificate authority of a data folder and the server certificate it signs; both survive restarts.

The server certificate is made anew when it does not name the host any more or is about to expire; clients trust the
authority, so nothing changes for them.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.apiserver.access.identity import write_private

AUTHORITY_DAYS = 3650
SERVER_DAYS = 365
RENEW_DAYS = 30
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def ensure(folder: Path, host: str) -> None:
    """Makes what is missing: `ca.crt`, `ca.key`, `server.crt`, `server.key`."""
    authority, authority_key = folder / "ca.crt", folder / "ca.key"
    if not (authority.exists() and authority_key.exists()):
        _make_authority(authority, authority_key)
        (folder / "server.crt").unlink(missing_ok=True)
    if not _still_good(folder / "server.crt", host) or not (folder / "server.key").exists():
        _make_server(folder, host)


def _make_authority(certificate: Path, key_file: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "penstock")])
    now = datetime.now(UTC)
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
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_private(key_file, _pem(key))
    write_private(certificate, made.public_bytes(serialization.Encoding.PEM))


def _make_server(folder: Path, host: str) -> None:
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{folder / 'ca.key'} is not the key that penstock made; remove the folder to make a new one")
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "penstock-api")]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=SERVER_DAYS))
        .add_extension(x509.SubjectAlternativeName(_alternatives(host)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    write_private(folder / "server.key", _pem(key))
    write_private(folder / "server.crt", made.public_bytes(serialization.Encoding.PEM))


def _still_good(path: Path, host: str) -> bool:
    if not path.exists():
        return False
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    lasts = certificate.not_valid_after_utc - datetime.now(UTC) > timedelta(days=RENEW_DAYS)
    return lasts and set(_alternatives(host)) <= set(named)


def _alternatives(host: str) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
    addresses = {"127.0.0.1", "::1"}
    try:
        addresses.add(str(ipaddress.ip_address(host)))
    except ValueError:
        if host not in _NAMES:
            names.append(x509.DNSName(host))
    return names + [x509.IPAddress(ipaddress.ip_address(address)) for address in sorted(addresses)]


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
