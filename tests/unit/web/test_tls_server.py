"""Certificates of servers: made, renewed, read again, and never shown by halves."""

from __future__ import annotations

import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from penstock.settings import Settings
from penstock.web import own_authority
from penstock.web.certificates import KeyPair, is_signed_by, issue_certificate, make_authority, names_all
from penstock.web.tls_server import (
    FOLDER,
    SPAN,
    InMemoryCertificate,
    NoCertificate,
    ServerTls,
    certificate,
    server_names,
    service_certificate,
    trusted_by_clients,
)

NOW = datetime(2026, 11, 17, tzinfo=UTC)


def settings_in(folder: Path, **changes: object) -> Settings:
    return Settings(data_dir=folder, **changes)  # type: ignore[arg-type]


def test_the_authority_of_the_folder_vouches_for_all_names(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, host="10.1.2.3", address_base="http://events.example")
    pair = certificate(settings, NOW)
    trusted = trusted_by_clients(settings, NOW)
    assert trusted is not None
    assert is_signed_by(pair.certificate, trusted.encode())
    wanted = ("localhost", "10.1.2.3", "events.example", "broker-ingress.knative-eventing.svc.cluster.local")
    assert names_all(pair.certificate, wanted)


def test_a_server_on_all_addresses_is_certified_for_the_machines_name(tmp_path: Path) -> None:
    import socket

    assert socket.gethostname() in server_names(settings_in(tmp_path, host="0.0.0.0"))


def test_it_is_kept_until_it_is_due_or_does_not_fit(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    first = certificate(settings, NOW)
    assert certificate(settings, NOW + SPAN.lasts - SPAN.renewed_before - timedelta(hours=1)) == first
    renewed = certificate(settings, NOW + SPAN.lasts - SPAN.renewed_before + timedelta(hours=1))
    assert renewed != first
    assert certificate(settings_in(tmp_path, host="10.1.2.3"), NOW) not in (first, renewed)


def test_one_of_another_authority_is_replaced(tmp_path: Path) -> None:
    first = certificate(settings_in(tmp_path), NOW)
    (tmp_path / "pki" / "ca.crt").unlink()
    second = certificate(settings_in(tmp_path), NOW)
    assert second != first
    assert is_signed_by(second.certificate, own_authority.authority_certificate(tmp_path / "pki", NOW))


def test_processes_that_start_at_once_agree_upon_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        pairs = list(threads.map(lambda _: certificate(settings_in(tmp_path), NOW), range(8)))
    assert len(set(pairs)) == 1


def test_what_is_kept_is_for_its_owner_alone(tmp_path: Path) -> None:
    certificate(settings_in(tmp_path), NOW)
    keys = list((tmp_path / "pki").glob("*.key"))
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    assert {key.name for key in keys} == {"ca.key", "tls.key"}


def given(folder: Path, pair: KeyPair) -> Settings:
    """Settings that name files with this certificate."""
    (folder / "c.pem").write_bytes(pair.certificate)
    (folder / "k.pem").write_bytes(pair.key)
    return settings_in(folder / "data", tls_cert_file=folder / "c.pem", tls_key_file=folder / "k.pem")


def made(host: str = "events.example") -> KeyPair:
    return issue_certificate(make_authority("a", timedelta(days=9), NOW), host, [host], timedelta(days=9), NOW)


def test_a_service_has_a_certificate_of_its_own(tmp_path: Path) -> None:
    settings = given(tmp_path, made())
    host = "job-sink.knative-eventing.svc.cluster.local"
    tls = ServerTls(settings, make=partial(service_certificate, settings, "job-sinks", [host]))
    assert (tls.look(), tls.look()) == (True, False)
    authority = own_authority.authority_certificate(settings.data_dir / FOLDER, NOW)
    certificate_shown = shown(tls.context).public_bytes(Encoding.PEM)
    assert is_signed_by(certificate_shown, authority)
    assert names_all(certificate_shown, [host])
    (settings.data_dir / FOLDER / "ca.key").write_bytes(b"not a key")
    with pytest.raises(NoCertificate, match=r"pki/ca\.key"):
        service_certificate(settings, "others", [host], NOW)


def test_one_that_passes_is_kept_in_memory_until_it_is_due(tmp_path: Path) -> None:
    host = "t-jsonata.ns.svc.cluster.local"
    make = InMemoryCertificate(settings_in(tmp_path), "pod", [host])
    first = make(NOW)
    assert names_all(first.certificate, [host])
    assert make(NOW + SPAN.lasts - SPAN.renewed_before - timedelta(hours=1)) == first
    assert make(NOW + SPAN.lasts - SPAN.renewed_before + timedelta(hours=1)) != first
    assert {path.name for path in (tmp_path / FOLDER).glob("*.*")} >= {"ca.crt", "ca.key"}
    assert not list((tmp_path / FOLDER).glob("pod*"))
    (tmp_path / FOLDER / "ca.crt").unlink()
    assert is_signed_by(make(NOW).certificate, own_authority.authority_certificate(tmp_path / FOLDER, NOW))
    (tmp_path / FOLDER / "ca.key").write_bytes(b"not a key")
    with pytest.raises(NoCertificate, match="not the key that penstock made"):
        InMemoryCertificate(settings_in(tmp_path), "pod", [host])(NOW)


def test_given_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    settings = given(tmp_path, made())
    tls = ServerTls(settings)
    assert (tls.look(), tls.look()) == (True, False)
    given(tmp_path, made())
    assert (tls.look(), tls.look()) == (True, False)
    assert not (tmp_path / "data").exists(), "nothing of its own is made beside given files"


def test_files_that_do_not_fit_leave_the_former_in_use(tmp_path: Path) -> None:
    first = made()
    tls = ServerTls(given(tmp_path, first))
    tls.look()
    (tmp_path / "c.pem").write_bytes(made().certificate)
    with pytest.raises(NoCertificate, match="cannot be used together"):
        tls.look()
    assert shown(tls.context) == x509.load_pem_x509_certificate(first.certificate)
    (tmp_path / "c.pem").unlink()
    with pytest.raises(NoCertificate, match=r"c\.pem cannot be read"):
        tls.look()


@pytest.mark.parametrize("host", [None, "events.example"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_handshake_fails_while_certificates_are_renewed(
    tmp_path: Path, version: ssl.TLSVersion, host: str | None
) -> None:
    pairs, renewals, over = [made(), made()], count(), Event()
    tls = ServerTls(settings_in(tmp_path), make=lambda _: pairs[next(renewals) % 2])
    tls.look()

    def renew() -> int:
        renewed = 0
        while not over.is_set():
            renewed += tls.look()
        return renewed

    expected = {x509.load_pem_x509_certificate(pair.certificate) for pair in pairs}
    with ThreadPoolExecutor(1) as threads:
        renewing = threads.submit(renew)
        try:
            # Cut off ones would be an eighth of them.
            seen = {shown(tls.context, version, host) for _ in range(200)}
        finally:
            over.set()
        assert renewing.result() > 1
    assert seen <= expected


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoCertificate, match="needs its key"):
        certificate(settings_in(tmp_path, tls_cert_file=tmp_path / "c.pem"), NOW)


def test_whoever_trusts_given_files_is_told_by_the_settings(tmp_path: Path) -> None:
    settings = given(tmp_path, made())
    assert trusted_by_clients(settings, NOW) is None
    (tmp_path / "ca.pem").write_text("PEM")
    assert trusted_by_clients(settings.model_copy(update={"tls_ca_file": tmp_path / "ca.pem"}), NOW) == "PEM"


def shown(
    server: ssl.SSLContext, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, host: str | None = None
) -> x509.Certificate:
    """The certificate that a client sees."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.minimum_version = client.maximum_version = version
    client.set_alpn_protocols(["http/1.1"])
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    seen = ours.getpeercert(binary_form=True)
    assert seen is not None
    assert ours.selected_alpn_protocol() == "http/1.1"
    return x509.load_der_x509_certificate(seen)
