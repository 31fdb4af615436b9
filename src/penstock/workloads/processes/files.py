"""The files that a container is given: its volumes and its ServiceAccount's credentials, in the Pod's folder.

Where this machine lets a program have mounts of its own, it sees them at the paths that the Pod names. Elsewhere the
paths in its command, arguments and environment are replaced by where the files really are.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from penstock.workloads.kubernetes import Manifest, PodApi
from penstock.workloads.processes import volumes
from penstock.workloads.processes.environment import ConfigError
from penstock.workloads.processes.node_context import CREDENTIALS, NodeContext


@dataclass(frozen=True)
class Files:
    """What a container is shown."""

    mounts: tuple[tuple[Path, str], ...] = ()
    """(where it is, where the program sees it); empty where the machine allows no mounts."""
    moved: tuple[tuple[Path, str], ...] = ()
    """The same, for text to be replaced."""
    root: Path = Path()
    env: Mapping[str, str] = field(default_factory=dict)

    def replaced(self, text: str) -> str:
        """The text with paths of the Pod as they are on this machine."""
        for source, target in sorted(self.moved, key=lambda pair: -len(pair[1])):
            whole = rf"(?<![\w/]){re.escape(target.rstrip('/'))}(?=/|$|[^\w.-])"
            text = re.sub(whole, str(source).replace("\\", r"\\"), text)
        return text


async def lay_out(pod: Manifest, spec: Manifest, api: PodApi, around: NodeContext) -> Files:
    """Writes the container's files into the Pod's folder. Raises ConfigError."""
    folder = around.folder_of(pod)
    shown = await lay_out_volumes(pod, spec, api, around)
    env, credentials = await _credentials(pod, api, around, folder)
    if credentials and all(target.rstrip("/") != CREDENTIALS for _, target in shown):
        shown.append((credentials, CREDENTIALS))
    root = _root(folder)
    if around.mounts:
        return Files(tuple(shown), (), root, env)
    return Files((), tuple(shown), root, env)


async def lay_out_volumes(pod: Manifest, spec: Manifest, api: PodApi, around: NodeContext) -> list[tuple[Path, str]]:
    """Writes the volumes of a container: (where one is, where the program sees it). Raises ConfigError."""
    folder = around.folder_of(pod)
    shown: list[tuple[Path, str]] = []
    declared = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for mount in spec.get("volumeMounts") or ():
        if mount["name"] not in declared:
            raise ConfigError(f'volume "{mount["name"]}" not found')
        place = await volumes.provide(pod, spec, declared[mount["name"]], folder / "volumes", api)
        inside = PurePosixPath(mount.get("subPath") or "").parts
        shown.append((volumes.below(place, *inside), mount["mountPath"]))
    return shown


def only_volumes(pod: Manifest, around: NodeContext) -> tuple[tuple[tuple[Path, str], ...], Path]:
    """Mounts for a built-in program, and the folder for what they need: of the data folder it sees the Pod's volumes
    alone. None where the machine allows no mounts, or where penstock itself is below the data folder."""
    needed = (sys.prefix, sys.base_prefix, __file__)
    if not around.mounts or any(Path(one).resolve().is_relative_to(around.data_dir) for one in needed):
        return (), Path()
    folder = around.folder_of(pod)
    root, volumes_folder = _root(folder), folder / "volumes"
    volumes_folder.mkdir(exist_ok=True)
    return ((root, str(around.data_dir)), (volumes_folder, str(volumes_folder))), root


def _root(folder: Path) -> Path:
    """An empty folder, over which a program's view of the machine is mounted."""
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    return root


async def refresh(pod: Manifest, spec: Manifest, api: PodApi, around: NodeContext) -> None:
    """Has a program that runs see what the ConfigMaps and Secrets of its volumes hold by now. Raises ConfigError."""
    folder, mounted = around.folder_of(pod) / "volumes", {mount["name"] for mount in spec.get("volumeMounts") or ()}
    for volume in pod["spec"].get("volumes") or ():
        if volume["name"] in mounted:
            await volumes.refresh(pod, spec, volume, folder, api)


async def _credentials(
    pod: Manifest, api: PodApi, around: NodeContext, folder: Path
) -> tuple[dict[str, str], Path | None]:
    """The variables and the folder by which clients inside a cluster find the API."""
    if not around.api_url:
        return {}, None
    token = None
    if pod["spec"].get("automountServiceAccountToken") is not False:
        token = await api.token(pod, pod["spec"].get("serviceAccountName") or "default")
    kubeconfig = folder / "kubeconfig"
    namespace = pod["metadata"]["namespace"]
    volumes.write_tree(folder, {"kubeconfig": _kubeconfig(around, namespace, token)})
    env = {
        "KUBERNETES_SERVICE_HOST": around.api_host,
        "KUBERNETES_SERVICE_PORT": str(around.api_port),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(around.api_port),
        # The user's own kubeconfig leads to another cluster; a program must not find it by accident.
        "KUBECONFIG": str(kubeconfig),
    }
    if token is None:
        return env, None
    place = folder / "serviceaccount"
    entries = {"token": token.encode(), "ca.crt": around.authority, "namespace": namespace.encode()}
    volumes.write_tree(place, entries)
    return env, place


def _kubeconfig(around: NodeContext, namespace: str, token: str | None) -> bytes:
    authority = base64.b64encode(around.authority).decode()
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pod",
        "clusters": [
            {"name": "penstock", "cluster": {"server": around.api_url, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "pod", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "pod", "context": {"cluster": "penstock", "user": "pod", "namespace": namespace}}],
    }
    return yaml.safe_dump(config, sort_keys=False).encode()
