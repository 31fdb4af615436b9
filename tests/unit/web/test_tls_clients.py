"""Whom clients believe to be the server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog.testing

from penstock.web.certificates import make_authority
from penstock.web.tls_clients import tls_to


def authority(name: str) -> str:
    return make_authority(name, timedelta(days=1), datetime.now(UTC)).certificate.decode()


def subjects(ca_certs: str | None, trusted: str = "") -> set[str]:
    """The common names of what is trusted."""
    found = tls_to(ca_certs, None, trusted).get_ca_certs()
    return {value for one in found for part in one["subject"] for _, value in part}  # type: ignore[str-unpack]


def test_the_system_the_bundles_and_the_certificates_of_the_destination_count_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "system.pem").write_text(authority("system"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    tls_to.cache_clear()
    assert subjects(None) == {"system"}
    assert subjects(authority("first") + authority("second")) == {"system", "first", "second"}
    assert subjects(None, authority("bundle")) == {"system", "bundle"}
    assert subjects(authority("own"), authority("bundle")) == {"system", "own", "bundle"}
    tls_to.cache_clear()


def test_bundles_that_cannot_be_used_are_left_out_and_told() -> None:
    without = subjects(authority("own"))
    with structlog.testing.capture_logs() as logs:
        assert subjects(authority("own"), "nothing of the kind") == without
    assert [line["event"] for line in logs] == ["the trust bundles cannot be used; verifying destinations without them"]


def test_what_is_no_certificate_is_told() -> None:
    with pytest.raises(ValueError, match="the certificates of the destination cannot be used"):
        tls_to("nothing of the kind")
