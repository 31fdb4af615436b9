"""Metrics and probes over HTTPS."""

from __future__ import annotations

import contextlib
import socket
import ssl
import urllib.request
from pathlib import Path

import pytest

from penstock.engine.roles import health
from penstock.engine.roles.health import endpoint_certificate
from penstock.observability import exposition
from penstock.runtime.errors import UserError
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings

LIMIT = 60.0


def asked(url: str, folder: Path) -> str:
    """What a client hears that trusts the data folder's authority."""
    trust = ssl.create_default_context(cafile=folder / "pki" / "ca.crt")
    with urllib.request.urlopen(url, timeout=LIMIT, context=trust) as answer:
        return str(answer.read().decode())


async def test_probes_are_answered_over_tls_also_while_somebody_never_agrees(tmp_path: Path) -> None:
    certificate = endpoint_certificate(Settings(data_dir=tmp_path, tls=True))
    with health.serving(health.Health(Lifecycle(), None), "127.0.0.1", 0, certificate) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT):
            assert asked(f"https://127.0.0.1:{port}/livez", tmp_path) == "ok\n"
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as plain:
            plain.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert b"ok" not in plain.recv(1000)


@pytest.mark.parametrize("tls", [True, False])
def test_metrics_are_served_as_the_settings_say(tmp_path: Path, tls: bool) -> None:
    (tmp_path / "metrics").mkdir()
    settings = Settings(data_dir=tmp_path, tls=tls)
    server, thread = exposition.serve("127.0.0.1", 0, tmp_path / "metrics", endpoint_certificate(settings))
    try:
        url = f"{settings.scheme}://127.0.0.1:{server.server_port}/metrics"
        if tls:
            assert asked(url, tmp_path) == ""
        else:
            with urllib.request.urlopen(url, timeout=LIMIT) as answer:
                assert answer.status == 200
    finally:
        server.shutdown()
        server.server_close()
        thread.join(LIMIT)


def test_files_that_are_of_no_use_are_told_before_anything_starts(tmp_path: Path) -> None:
    wrong = Settings(data_dir=tmp_path, tls=True, tls_cert_file=tmp_path / "none", tls_key_file=tmp_path / "none")
    with pytest.raises(UserError, match="There is no certificate for HTTPS"):
        endpoint_certificate(wrong)
