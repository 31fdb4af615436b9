"""The receiver in the documentation of signed deliveries takes what is genuine, and nothing else."""

from __future__ import annotations

import base64
import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest
from standardwebhooks import Webhook

from penstock.dispatcher.secrets import signature_lines

ROOT = Path(__file__).parents[3]
KEY, OTHER = b"k" * 32, b"o" * 32
SECRET = "whsec_" + base64.b64encode(KEY).decode()
NOW = 1_800_000_000
BODY = b'{"id":"1"}'


@pytest.fixture(scope="module")
def receiver() -> ModuleType:
    path = ROOT / "examples/security/signed_receiver.py"
    spec = importlib.util.spec_from_file_location("signed_receiver", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def headers(*keys: bytes, at: int = NOW) -> dict[str, str]:
    lines = signature_lines(keys, "msg_1", at, BODY).decode().split("\r\n")
    return dict(line.split(": ", 1) for line in lines if line)


def test_what_is_signed_with_its_secret_is_genuine(receiver: ModuleType) -> None:
    assert receiver.is_genuine(SECRET, headers(KEY), BODY, NOW + 299)
    assert receiver.is_genuine(SECRET, headers(OTHER, KEY), BODY, NOW)


@pytest.mark.parametrize(
    ("shown", "body", "now"),
    [
        (headers(OTHER), BODY, NOW),
        (headers(KEY), b'{"id":"2"}', NOW),
        (headers(KEY), BODY, NOW + 301),
        (headers(KEY, at=NOW + 301), BODY, NOW),
        (headers(KEY) | {"webhook-id": "msg_2"}, BODY, NOW),
        (headers(KEY) | {"webhook-timestamp": f"{NOW + 1}"}, BODY, NOW),
        (headers(KEY) | {"webhook-timestamp": "lately"}, BODY, NOW),
        (headers(KEY) | {"webhook-signature": ""}, BODY, NOW),
        ({}, BODY, NOW),
    ],
)
def test_nothing_else_is(receiver: ModuleType, shown: dict[str, str], body: bytes, now: int) -> None:
    assert not receiver.is_genuine(SECRET, shown, body, now)


def test_the_page_shows_the_receiver_as_it_is(receiver: ModuleType) -> None:
    page = (ROOT / "docs/signed-deliveries.md").read_text()
    assert inspect.getsource(receiver.is_genuine).strip() in page
    assert receiver.TOLERANCE_SECONDS == 300
    assert "from standardwebhooks import Webhook" in page
    assert Webhook.__module__.startswith("standardwebhooks")
