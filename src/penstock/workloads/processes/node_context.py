"""What this machine gives to all programs: addresses of the proxy and the API, folders, and whether it can mount."""

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
"""Letters of a Pod's name in that of its folder."""


@dataclass(frozen=True)
class NodeContext:
    """What programs of this node have around them."""

    data_dir: Path
    """Data folder of the stack."""
    proxies: Proxies | None = None
    """The proxies that know the names of Services."""
    api_url: str = ""
    api_host: str = ""
    api_port: int = 0
    authority: bytes = b""
    """Certificate of the API's authority."""
    mounts: bool = False
    """Whether programs can be shown files at paths of their own."""

    def folder_of(self, pod: Mapping[str, Any]) -> Path:
        """The folder of a Pod's files."""
        metadata = pod["metadata"]
        # With the longest name that a Pod may have it would be too long for a file system.
        folder = f"{metadata['name'][:LONGEST_SHOWN]}-{metadata.get('uid', '')}"
        return path_below(self.data_dir / "pods", metadata["namespace"], folder)


async def can_mount(data_dir: Path) -> bool:
    """Whether this machine lets a program have a mount namespace without privileges: tried with a file of ours."""
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
        log.info("programs of Pods see no files at paths of their own", reason=said.decode(errors="replace").strip())
    return process.returncode == 0
