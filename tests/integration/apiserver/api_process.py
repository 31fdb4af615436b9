"""A real API server in its own process, spoken to over HTTPS and with the real kubectl."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.running import held_ports

SCRIPT = Path(__file__).with_name("serve_api.py")


@dataclass
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """The process, and a client that speaks plain HTTP to it."""

    data_dir: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    token: str = ""
    context: ssl.SSLContext | None = None

    def start(self) -> None:
        with (self.data_dir / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT), str(self.data_dir), str(self.port)], stdout=subprocess.PIPE, stderr=log
            )
        assert self.process.stdout is not None
        self.context = None
        line = self.process.stdout.readline()
        assert b"ready" in line, (line, (self.data_dir / "server.log").read_text())

    def stop(self, how: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    def connection(self) -> http.client.HTTPSConnection:
        if self.context is None:
            config = yaml.safe_load(self.kubeconfig.read_text())
            authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
            self.token = config["users"][0]["user"]["token"]
            self.context = ssl.create_default_context(cadata=authority)
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=60)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        token: str | None = None,
        **more: str,
    ) -> Answer:
        connection = self.connection()
        raw = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
        headers = {"Content-Type": media, **{key.replace("_", "-"): value for key, value in more.items()}}
        secret = self.token if token is None else token
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        try:
            connection.request(method, path, raw, headers)
            response = connection.getresponse()
            return Answer(response.status, response.read(), {k.lower(): v for k, v in response.getheaders()})
        finally:
            connection.close()

    def memory_mib(self) -> float:
        """Resident memory of the process."""
        assert self.process is not None
        return psutil.Process(self.process.pid).memory_info().rss / 2**20

    def kubectl(self, *arguments: str, stdin: str | None = None, ok: bool = True) -> str:
        done = subprocess.run(
            ["kubectl", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.data_dir)},
            check=False,
        )
        told = done.stdout + done.stderr
        assert (done.returncode == 0) == ok, told
        return told


def started(data_dir: Path) -> Server:
    """A server that serves."""
    [port] = held_ports(1)
    server = Server(data_dir, port)
    server.start()
    return server
