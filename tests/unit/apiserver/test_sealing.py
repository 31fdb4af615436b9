"""Secrets at rest: encrypted under a key that can be changed, and readable by nobody without it."""

from __future__ import annotations

import base64
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.apiserver.access import identity
from penstock.apiserver.http.watching import Watches
from penstock.apiserver.service import assembled
from penstock.apiserver.store.encryption import Keyring, WrongKey, key_of, load_keyring, reencrypt
from penstock.cli import app
from penstock.engine.datadir import exclusive
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from tests.unit.apiserver.api_in_process import ApiInProcess

OLD, NEW = ("old", b"o" * 32), ("new", b"n" * 32)
PLACE = ("secrets", "default", "a")
SECRETS = "/api/v1/namespaces/default/secrets"


def key_file(folder: Path, *keys: tuple[str, bytes]) -> Path:
    path = folder / "keys"
    path.write_text("".join(f"{name}:{base64.b64encode(key).decode()}\n" for name, key in keys))
    path.chmod(0o600)
    return path


def test_only_secrets_are_sealed_and_they_open_where_they_belong() -> None:
    keyring = Keyring([OLD])
    record = keyring.encrypt(*PLACE, b"swordfish")
    assert (b"swordfish" in record, key_of(record), keyring.decrypt(*PLACE, record)) == (False, "old", b"swordfish")
    assert keyring.encrypt(*PLACE, b"swordfish") != record
    assert keyring.encrypt("configmaps", "default", "a", b"plain") == b"plain"
    assert Keyring().decrypt(*PLACE, b"plain") == b"plain"
    with pytest.raises(WrongKey, match="default/b cannot be decrypted"):
        keyring.decrypt("secrets", "default", "b", record)


def test_a_key_is_named_where_it_is_missing_or_another() -> None:
    record = Keyring([OLD]).encrypt(*PLACE, b"swordfish")
    with pytest.raises(WrongKey, match=r"default/a is encrypted with the key old, .* \(new\)"):
        Keyring([NEW]).decrypt(*PLACE, record)
    with pytest.raises(WrongKey, match=r"\(none\)"):
        Keyring().decrypt(*PLACE, record)
    with pytest.raises(WrongKey, match="the key old is another one"):
        Keyring([("old", b"x" * 32)]).decrypt(*PLACE, record)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty"),
        ("a:short", "32 bytes in base64"),
        ("no-colon", "32 bytes in base64"),
        ("a:" + "A" * 43 + "=\na:" + "A" * 43 + "=", "two keys of one name"),
    ],
)
def test_a_file_of_keys_that_is_none_is_refused(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "keys"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(WrongKey, match=told):
        load_keyring(path, None, tmp_path)
    with pytest.raises(WrongKey, match="cannot be read"):
        load_keyring(tmp_path / "nothing", None, tmp_path)
    path.chmod(0o644)
    with pytest.raises(WrongKey, match="chmod 600"):
        load_keyring(path, None, tmp_path)


def test_a_passphrase_is_a_key_of_its_own(tmp_path: Path) -> None:
    first = load_keyring(None, ["echo", "correct horse"], tmp_path)
    record = first.encrypt(*PLACE, b"swordfish")
    assert load_keyring(None, ["echo", "correct horse"], tmp_path).decrypt(*PLACE, record) == b"swordfish"
    with pytest.raises(WrongKey, match="not among the keys given"):
        load_keyring(None, ["echo", "another"], tmp_path).decrypt(*PLACE, record)
    with pytest.raises(WrongKey, match="printed no passphrase"):
        load_keyring(None, ["true"], tmp_path)
    with pytest.raises(WrongKey, match="failed: CalledProcessError"):
        load_keyring(None, ["false"], tmp_path)


async def _with_api(folder: Path, keys: Path | None, *calls: tuple[str, str, object]) -> list[object]:
    _, tokens = identity.load_component_tokens(folder / "pki" / "tokens.json")
    async with assembled(Settings(data_dir=folder, secrets_key_file=keys), TaskScope(), Watches()) as app:
        return [(await ApiInProcess(app, tokens).call(*call))[1] for call in calls]


def _records(folder: Path) -> list[bytes]:
    with sqlite3.connect(folder / "api.db") as database:
        return [row[0] for row in database.execute("SELECT body FROM objects WHERE resource = 'secrets'")]


def _on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("api.db*"))


async def test_the_api_keeps_secrets_under_changing_keys(tmp_path: Path) -> None:
    body = {"metadata": {"name": "a"}, "stringData": {"password": "swordfish"}}
    await _with_api(tmp_path, None, ("POST", SECRETS, body))
    assert all(key_of(record) is None for record in _records(tmp_path))
    await _with_api(tmp_path, key_file(tmp_path, OLD), ("GET", SECRETS, None))
    assert {key_of(record) for record in _records(tmp_path)} == {"old"}
    assert base64.b64encode(b"swordfish") not in _on_disk(tmp_path)
    [listed, read] = await _with_api(
        tmp_path, key_file(tmp_path, NEW, OLD), ("GET", SECRETS, None), ("GET", f"{SECRETS}/a", None)
    )
    assert isinstance(read, dict)
    assert base64.b64decode(read["data"]["password"]) == b"swordfish"
    assert isinstance(listed, dict)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
    assert {key_of(record) for record in _records(tmp_path)} == {"new"}
    assert reencrypt(tmp_path / "api.db", Keyring([NEW])) == 0
    with pytest.raises(WrongKey, match="encrypted with the key new"):
        await _with_api(tmp_path, key_file(tmp_path, OLD))


async def test_the_command_leaves_the_secrets_of_an_api_that_runs_alone(tmp_path: Path) -> None:
    body = {"metadata": {"name": "a"}, "stringData": {"password": "swordfish"}}
    await _with_api(tmp_path, None, ("POST", SECRETS, body))
    setting = f"secrets_key_file={key_file(tmp_path, OLD)}"
    command = ["secrets", "reencrypt", "--data-dir", str(tmp_path), "--set", setting]
    with exclusive(tmp_path, "apiserver"):  # as the API holds it
        refused = CliRunner().invoke(app, command)
    assert (refused.exit_code, "each start re-encrypts Secrets" in refused.output) == (1, True), refused.output
    assert {key_of(record) for record in _records(tmp_path)} == {None}
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, done.output) == (0, "1 Secret re-encrypted with the key old.\n")
    assert {key_of(record) for record in _records(tmp_path)} == {"old"}
