"""Another account of the machine reads nothing of a stack: no file, no command line, no port, no page."""

from __future__ import annotations

import base64
import concurrent.futures
import encodings.idna  # noqa: F401  # found when first used, which the other account may not be allowed to
import http.client
import json
import os
import re
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import yaml
from typer.testing import CliRunner

from penstock.cli import app
from tests.integration.isolation.tenants import BANK, PRIVATE, Caller, Listener
from tests.running import Stack

NOBODY, ANOTHER = 65534, 65533
SECONDS = 3.0
"""For an answer of a port: what does not answer tells nothing."""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account: run these tests as root"),
    pytest.mark.skipif(sys.platform != "linux", reason="what a process listens on is read from Linux's /proc"),
]


def as_nobody(ask: Callable[[], Any], account: int = NOBODY) -> Any:
    """What a function gives in a process of another account; it has to be JSON."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(account)
            os.setuid(account)
            found = json.dumps(ask()).encode()
        except BaseException as error:
            found = json.dumps(f"{type(error).__name__}: {error}").encode()
        with os.fdopen(write_end, "wb") as file:
            file.write(found)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        found = file.read()
    os.waitpid(child, 0)
    return json.loads(found)


def processes(stack: Stack) -> list[psutil.Process]:
    """Everything that runs for the stack."""
    first = psutil.Process(stack.record["pid"])
    return [first, *first.children(recursive=True)]


@pytest.fixture(scope="module")
def secrets(stack: Stack, users: Mapping[str, Caller]) -> list[str]:
    """What is to be found nowhere: tokens, and the contents of files with keys and passwords."""
    folder = stack.settings.data_dir
    tokens = [one["token"] for one in json.loads((folder / "pki" / "tokens.json").read_text())]
    for file in folder.glob("kubeconfig*"):
        tokens += [user["user"]["token"] for user in yaml.safe_load(file.read_text())["users"]]
    words = [
        word
        for file in (folder / "pki").rglob("*")
        if file.is_file() and file.suffix != ".crt"
        for word in re.findall(r"[\w+/=.-]{24,}", file.read_text(errors="replace"))
        if not word.startswith(("-----", "system", str(folder)))
    ]
    return sorted({*tokens, *words, PRIVATE})


def test_the_other_account_is_another_one() -> None:
    assert as_nobody(lambda: [os.getuid(), os.getgid(), os.getgroups()]) == [NOBODY, NOBODY, []]
    assert "PermissionError" in as_nobody(lambda: Path("/proc/1/environ").read_text())


def test_no_file_of_a_stack_is_open_outside_its_data_folder(stack: Stack) -> None:
    """Such as in the folder for temporary files, where others look."""
    folder = str(stack.settings.data_dir.resolve())
    opened = {
        file.path
        for process in processes(stack)
        if process.is_running()
        for file in process.open_files()
        if not file.path.startswith((folder, sys.prefix, sys.base_prefix, "/usr/", "/proc/", "/dev/", "/sys/"))
    }
    written = [path for path in opened if os.path.exists(path) and os.access(path, os.W_OK)]
    readable = as_nobody(lambda: [path for path in written if os.access(path, os.R_OK)])
    assert not [path for path in readable if not path.endswith((".jar", ".jsa", ".so"))]


@pytest.mark.parametrize(
    "command",
    [
        ["events", "--since", "1h", "--data"],
        ["sql", "select * from events"],
        ["sql", "select * from attempts"],
    ],
    ids=" ".join,
)
def test_commands_read_no_history(stack: Stack, users: Mapping[str, Caller], command: list[str]) -> None:
    line = [*command, "--data-dir", str(stack.settings.data_dir)]

    def run() -> list[Any]:
        ran = CliRunner().invoke(app, line)
        return [ran.exit_code, ran.output]

    code, shown = run()
    assert code == 0, shown
    code, shown = as_nobody(run)
    assert code != 0
    assert PRIVATE not in shown
    assert "ledger" not in shown


def test_command_lines_contain_no_secrets(stack: Stack, secrets: list[str], bank: Listener) -> None:
    pids = [process.pid for process in processes(stack)]
    assert len(pids) > 6
    lines = as_nobody(lambda: [Path(f"/proc/{pid}/cmdline").read_text(errors="replace") for pid in pids])
    assert any("kafka" in line.lower() for line in lines)
    assert not [line for line in lines if any(secret in line for secret in secrets)]
    hidden = as_nobody(lambda: [name for pid in pids for name in ("environ", "maps", "mem") if readable(pid, name)])
    assert hidden == []


def readable(pid: int, name: str) -> bool:
    """Whether something of a process can be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            file.read(1)
    except OSError:
        return False
    return True


def exchanged(address: tuple[str, int], sent: bytes, tls: bool, seconds: float = SECONDS) -> str:
    """What comes back for what is sent."""
    found = b""
    try:
        with (
            socket.create_connection(address, seconds) as plain,
            ssl._create_unverified_context().wrap_socket(plain) if tls else plain as connection,
        ):
            connection.settimeout(seconds)
            connection.sendall(sent)
            while len(found) < 2**20 and (part := connection.recv(65536)):
                found += part
    except OSError:
        pass
    return found.decode(errors="replace")


def requests(host: str) -> list[bytes]:
    """What somebody who finds a port tries."""
    paths = (
        "/",
        "/metrics",
        "/events",
        "/live/events",
        "/stack/logs/control",
        "/jobs/",
        "/environment/",
        "/api/v1/secrets",
        f"/api/v1/namespaces/{BANK}/secrets/db",
        f"/{BANK}/payments",
        f"/namespaces/{BANK}/name/booking/sources/s/ids/i",
        "/openid/v1/jwks",
    )
    head = f"Host: {host}\r\nConnection: close\r\n"
    gets = [f"GET {path} HTTP/1.1\r\n{head}\r\n".encode() for path in paths]
    guessed = "Authorization: Bearer x\r\n"
    # The last two are what a gateway to a JVM understands.
    return [*gets, f"GET /api/v1/secrets HTTP/1.1\r\n{head}{guessed}\r\n".encode(), b"\r\n\r\n", b"c\nt\ngetClass\ne\n"]


def test_no_port_of_a_stack_tells_anything_without_credentials(
    stack: Stack, secrets: list[str], bank: Listener
) -> None:
    listening = {
        (connection.laddr.ip, connection.laddr.port)
        for process in processes(stack)
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    ports = {port for _, port in listening}
    assert {stack.settings.port, stack.settings.api_port, stack.settings.kafka_port} <= ports
    assert not [ip for ip, _ in listening if not ip.startswith("127.") and ip not in ("::1", "::ffff:127.0.0.1")]

    def tried() -> dict[str, str]:
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            asked = {
                (ip, port, number, tls): pool.submit(exchanged, (ip, port), sent, tls)
                for ip, port in listening
                for number, sent in enumerate(requests(f"{ip}:{port}"))
                for tls in (False, True)
            }
            return {" ".join(map(str, key)): answer.result() for key, answer in asked.items()}

    answers = as_nobody(tried)
    assert isinstance(answers, dict), answers
    for port, path, tls, text in (
        (stack.settings.api_port, "/api/v1/secrets", True, "Unauthorized"),
        (stack.settings.metrics_port, "/metrics", False, "penstock_"),
    ):
        sent = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
        assert text in exchanged(("127.0.0.1", port), sent, tls, 60), "it answers what is asked in this way"
    told = [(key, answer[:300]) for key, answer in answers.items() if any(secret in answer for secret in secrets)]
    assert not told
    # A request to a proxy that leads back to it does not go round until nothing can be opened any more.
    assert psutil.Process(stack.record["components"]["control"]["pid"]).num_fds() < 1000


def test_no_socket_file_of_a_stack_is_reached(stack: Stack) -> None:
    pids = {process.pid for process in processes(stack)}
    paths = {
        str(connection.laddr)
        for process in processes(stack)
        for connection in process.net_connections("unix")
        if connection.laddr and connection.status == psutil.CONN_NONE
    }
    assert pids

    def reached() -> list[str]:
        found = []
        for path in sorted(paths):
            with socket.socket(socket.AF_UNIX) as one:
                try:
                    one.connect("\0" + path[1:] if path.startswith("@") else path)
                except OSError:
                    continue
            found.append(path)
        return found

    own = [path for path in as_nobody(reached) if str(stack.settings.data_dir) in path or path.startswith("@")]
    assert own == []


def test_the_api_answers_nothing_without_a_token(stack: Stack, bank: Listener) -> None:
    def statuses() -> list[int]:
        found = []
        context = ssl._create_unverified_context()
        for path in ("/api", "/apis", "/api/v1/secrets", f"/api/v1/namespaces/{BANK}/pods/teller/log", "/version"):
            for token in ("", "x", base64.b64encode(b"admin").decode()):
                connection = http.client.HTTPSConnection("127.0.0.1", stack.settings.api_port, context=context)
                connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
                found.append(connection.getresponse().status)
                connection.close()
        return found

    assert set(as_nobody(statuses)) <= {401, 429}


def test_a_link_of_another_account_signs_nobody_in(stack: Stack, admin: Caller) -> None:
    console = stack.settings.console_url.rstrip("/")

    def posted(path: str, **headers: str) -> list[Any]:
        connection = http.client.HTTPConnection(urlsplit(console).netloc, timeout=60)
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": console}
        connection.request("POST", path, "seconds=60&to=%2F", {**form, **headers})
        response = connection.getresponse()
        found = [response.status, response.headers["set-cookie"] or "", response.read().decode()]
        connection.close()
        return found

    # A link that root makes is for every account that root gives it to.
    status, _, body = as_nobody(lambda: posted("/login/links", Authorization=f"Bearer {admin.token}"), ANOTHER)
    assert status == 201
    path = json.loads(body)["path"]
    status, cookie, body = as_nobody(lambda: posted(path))
    assert (status, cookie) == (403, ""), "belongs to another account"
    status, cookie, _ = as_nobody(lambda: posted(path), ANOTHER)
    assert status == 303, "and not used up by that"
    assert cookie


def test_no_file_of_the_data_folder_is_read(stack: Stack, users: Mapping[str, Caller]) -> None:
    root = stack.settings.data_dir
    assert as_nobody(lambda: os.listdir(root.parent)) == ["data"], "the folder itself is in the way, not one above it"
    paths = [root, *root.rglob("*")]
    wanted = {"kubeconfig", "api.db", "tokens.json", "control.log", "stack.json", "settings.json"}
    assert wanted <= {path.name for path in paths}

    def opened() -> list[str]:
        found = []
        for path in paths:
            try:
                os.close(os.open(path, os.O_RDONLY))
            except OSError:
                continue
            found.append(str(path))
        return found

    assert as_nobody(opened) == []
    # Also if the folder above were open: each of them is closed for itself.
    modes = {str(path): path.lstat().st_mode for path in paths if path.exists() and not path.is_symlink()}
    assert not [path for path, mode in modes.items() if mode & 0o077]
