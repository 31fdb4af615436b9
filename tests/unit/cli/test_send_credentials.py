"""As whom `penstock send` sends, where to, and whom it believes."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli.event_sender import remedy
from penstock.cli.keys import line_of
from penstock.cli.sending_target import INGRESS_VARIABLE, address_of, credentials_for, given_token
from penstock.operations.cluster_api import BROKERS, CHANNELS
from penstock.operations.installation import Installation
from penstock.operations.sending import SendingAddress, fault_of
from penstock.resources.api_keys import StoredKey
from penstock.runtime.errors import UserError
from penstock.settings import Settings
from penstock.web.certificates import make_authority

HERE = Installation("here", settings=Settings(port=18080, tls_port=18444))
ELSEWHERE = Installation("elsewhere")


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INGRESS_VARIABLE, raising=False)


def broker(**address: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": "orders"}, "status": {"address": address}}


def authority(name: str) -> str:
    return make_authority(name, timedelta(days=1), datetime.now(UTC)).certificate.decode()


def test_a_stack_here_is_sent_to_by_the_protocol_of_the_address() -> None:
    plain = broker(url="http://machine:1/shop/orders")
    secure = broker(url="https://machine:2/shop/orders", CACerts="PEM", audience="a")
    assert address_of(HERE, BROKERS, plain) == SendingAddress("http://127.0.0.1:18080/shop/orders")
    assert address_of(HERE, BROKERS, secure) == SendingAddress("https://127.0.0.1:18444/shop/orders", "PEM", "a")
    assert address_of(HERE, CHANNELS, secure).url == "https://127.0.0.1:18444/channels/shop/orders"


def test_an_installation_elsewhere_is_sent_to_at_its_address_or_as_the_variable_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert address_of(ELSEWHERE, BROKERS, broker(url="https://far/x", CACerts="PEM")) == SendingAddress(
        "https://far/x", "PEM"
    )
    with pytest.raises(UserError, match="has no address yet"):
        address_of(ELSEWHERE, BROKERS, broker())
    monkeypatch.setenv(INGRESS_VARIABLE, "https://gate/")
    found = address_of(ELSEWHERE, BROKERS, broker(url="http://inside/x", audience="a"))
    assert found == SendingAddress("https://gate/shop/orders", audience="a")


def test_the_token_is_a_header_and_shown_nowhere_else() -> None:
    made = credentials_for(SendingAddress("http://h/"), "pk_secret", None)
    assert made.headers == [("authorization", "Bearer pk_secret")]
    assert "pk_secret" not in repr(made)
    assert credentials_for(SendingAddress("http://h/"), "", None).headers == []


def test_every_certificate_that_is_known_of_counts(tmp_path: Path) -> None:
    for name in ("flag", "installation"):
        (tmp_path / name).write_text(authority(name))
    address = SendingAddress("HTTPS://h/", authority("address"))
    trusted = credentials_for(address, "", tmp_path / "flag", tmp_path / "installation").trusted
    assert trusted is not None
    assert (trusted.verify_mode, trusted.check_hostname) == (ssl.CERT_REQUIRED, True)
    names = {value for one in trusted.get_ca_certs() for part in one["subject"] for _, value in part}  # type: ignore[str-unpack]
    assert {"flag", "installation", "address"} <= names


def test_what_is_no_certificate_or_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("nothing of the kind")
    with pytest.raises(UserError, match="cannot be used") as raised:
        credentials_for(SendingAddress("https://h/"), "", tmp_path / "ca")
    assert f"--ca-file {tmp_path / 'ca'}" in raised.value.remedy
    with pytest.raises(UserError, match="cannot be read: No such file"):
        credentials_for(SendingAddress("https://h/"), "", tmp_path / "none")


def test_a_token_comes_as_it_is_or_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(" pk_1\n")
    assert (given_token(None), given_token(""), given_token("pk_1")) == ("", "", "pk_1")
    assert given_token(f"@{tmp_path / 'key'}") == "pk_1"
    with pytest.raises(UserError, match=r"The token in .* cannot be read"):
        given_token(f"@{tmp_path / 'none'}")


@pytest.mark.parametrize("text", ["a b", "a\r\nx-forged: 1", "ä", " "])
def test_what_cannot_be_a_token_is_not_repeated(text: str) -> None:
    with pytest.raises(UserError) as raised:
        given_token(text)
    assert "forged" not in raised.value.what


@pytest.mark.parametrize("more", [["--token", "pk_1"], ["--to", "http://127.0.0.1:1/"]])
def test_a_service_account_goes_with_neither_token_nor_url(more: list[str]) -> None:
    result = CliRunner().invoke(app, ["send", "{}", "--service-account", "till", *more])
    assert (result.exit_code, "--service-account cannot be combined" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "--token KEY"), (403, "eventpolicies"), (404, "get brokers"), (429, "--rate"), (500, ""), (202, "")],
)
def test_what_to_do_about_an_answer(status: int, said: str) -> None:
    assert said in remedy(status)
    assert bool(remedy(status)) is bool(said)


def verification(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "words of OpenSSL"
    return error


@pytest.mark.parametrize(
    ("cause", "fault", "said"),
    [
        (verification(20), "untrusted", "--ca-file"),
        (verification(62), "other name", "other names"),
        (verification(64), "other name", "other names"),
        (OSError("refused"), "none", ""),
    ],
)
def test_what_to_do_about_a_connection(cause: Exception, fault: str, said: str) -> None:
    error = httpx2.ConnectError("failed")
    error.__cause__ = cause
    found, words = fault_of(error)
    assert found == fault
    assert ("words of OpenSSL" in words) is (fault != "none")
    assert said in remedy(None, found)


def test_a_connection_that_is_reset_is_one_that_was_closed() -> None:
    assert fault_of(httpx2.ReadError("reset")) == fault_of(httpx2.RemoteProtocolError("closed")) == ("hung up", "")


def test_a_key_is_a_line() -> None:
    assert line_of(StoredKey("till", "d"), 0.0) == "till  expires never"
    assert line_of(StoredKey("till", "d", expires=60), 61.0) == "till  expired 1970-01-01T00:01:00Z"
    limited = StoredKey("till", "d", events_per_second=0.5, bytes_per_second=1_000_000)
    assert line_of(limited, 0.0) == "till  expires never  0.5 events/s  1,000,000 bytes/s"
