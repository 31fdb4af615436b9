"""The context of all programs of the node: addresses of the proxies and the API, folders, support for mounts."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from penstock.runtime.files import path_below
from penstock.workloads.processes.command import Proxies
from penstock.workloads.processes.process import LAUNCHER

log = structlog.get_logger()

CREDENTIALS = "/var/run/secrets/kubernetes.io/serviceaccount"
PROBE_SECONDS = 20
LONGEST_SHOWN = 200
"""How many characters of a Pod's name are used in the name of its folder."""


@dataclass(frozen=True)
class NodeContext:
    """The context of programs of this node."""

    data_dir: Path
    """Data folder of the stack."""
    proxies: Proxies | None = None
    """The proxies for Services."""
    api_url: str = ""
    api_host: str = ""
    api_port: int = 0
    authority: bytes = b""
    """CA certificate of the API."""
    mounts: bool = False
    """Whether files can be mounted for programs."""

    def folder_of(self, pod: Mapping[str, Any]) -> Path:
        """The folder of a Pod's files."""
        metadata = pod["metadata"]
        # The longest name of a Pod would be too long for file systems.
        folder = f"{metadata['name'][:LONGEST_SHOWN]}-{metadata.get('uid', '')}"
        return path_below(self.data_dir / "pods", metadata["namespace"], folder)


async def can_mount(data_dir: Path) -> bool:
    """Whether unprivileged mount namespaces work on this machine, by an attempt."""
    if sys.platform != "linux":
        return False
    folder = data_dir / "pods" / ".mounts"
    root, source = folder / "root", folder / "shown"
    for one in (root, source):
        one.mkdir(parents=True, exist_ok=True)
    (source / "seen").touch()
    test = f"test -f {CREDENTIALS}/seen && test -f /penstock-mounts/seen"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), "--root", str(root)),
        *("--mount", str(source), CREDENTIALS, "--mount", str(source), "/penstock-mounts"),
        *("--", "/bin/sh", "sh", "-c", test),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, said = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
    if process.returncode:
        log.info(
            "mount namespaces are not available; paths in commands and environments are replaced instead",
            reason=said.decode(errors="replace").strip(),
        )
    return process.returncode == 0
