"""The files of a container: its volumes and its ServiceAccount's credentials, in the folder of the Pod.

Volumes have the content of ConfigMaps, Secrets and fields of the Pod, or are empty. If the machine supports mount
namespaces, the program sees the files at the paths in the Pod; otherwise these paths are replaced in its command,
arguments and environment.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from penstock.runtime.files import LONGEST_NAME, LeadsOutside, path_below
from penstock.workloads.kubernetes import Manifest, PodApi
from penstock.workloads.processes.environment import ConfigError, Kind, field_value, resource_value
from penstock.workloads.processes.node_context import CREDENTIALS, NodeContext

KNOWN = ("configMap", "secret", "emptyDir", "projected", "downwardAPI")


async def provide(pod: Manifest, spec: Manifest, volume: Manifest, folder: Path, api: PodApi) -> Path:
    """The volume's folder, filled. Raises ConfigError."""
    destination = below(folder, volume["name"])
    if "emptyDir" in volume:
        destination.mkdir(parents=True, exist_ok=True)
        return destination
    kind = next((kind for kind in KNOWN if kind in volume), None)
    if kind is None:
        raise ConfigError(f'volume "{volume["name"]}" has an unsupported type; supported are {", ".join(KNOWN)}')
    write_tree(destination, await _contents(pod, spec, {kind: volume[kind] or {}}, api))
    return destination


async def refresh_volume(pod: Manifest, spec: Manifest, volume: Manifest, folder: Path, api: PodApi) -> None:
    """Updates a volume from its ConfigMaps and Secrets. Raises ConfigError."""
    destination, source = below(folder, volume["name"]), _changing(volume)
    if source and destination.is_dir():
        write_tree(destination, await _contents(pod, spec, source, api))


def changes(volume: Manifest) -> bool:
    """Whether the content of the volume may change while a program runs."""
    return bool(_changing(volume))


def _changing(volume: Manifest) -> Manifest:
    """The ConfigMap and Secret sources of a volume. Tokens of ServiceAccounts are not renewed."""
    if "projected" in volume:
        sources = [one for one in volume["projected"].get("sources") or () if _changing(one)]
        return {"projected": {"sources": sources}} if sources else {}
    return {kind: volume[kind] for kind in ("configMap", "secret") if volume.get(kind)}


async def _contents(pod: Manifest, spec: Manifest, source: Manifest, api: PodApi) -> dict[str, bytes]:
    if "projected" in source:
        files: dict[str, bytes] = {}
        for one in source["projected"].get("sources") or ():
            files |= await _contents(pod, spec, one, api)
        return files
    if "downwardAPI" in source:
        return {item["path"]: _described(pod, spec, item) for item in source["downwardAPI"].get("items") or ()}
    if "serviceAccountToken" in source:
        wanted = source["serviceAccountToken"]
        account = pod["spec"].get("serviceAccountName") or "default"
        token = await api.token(pod, account, wanted.get("audience"), wanted.get("expirationSeconds"))
        return {wanted["path"]: (token or "").encode()}
    for source_field, kind in (("configMap", "configmap"), ("secret", "secret")):
        if source_field in source:
            return await _entries(pod, source[source_field], kind, api)  # type: ignore[arg-type]  # the pairs above
    return {}


async def _entries(pod: Manifest, source: Mapping[str, Any], kind: Kind, api: PodApi) -> dict[str, bytes]:
    name = source.get("secretName") or source.get("name") or ""
    found = await api.files(pod, kind, name)
    if found is None:
        if source.get("optional"):
            return {}
        raise ConfigError(f'{kind} "{name}" not found')
    return chosen(found, source, f'{kind} "{name}"')


def chosen(found: Mapping[str, bytes], source: Mapping[str, Any], title: str) -> dict[str, bytes]:
    """The entries selected by `items` at their paths, or all. Raises ConfigError."""
    if not source.get("items"):
        return dict(found)
    files = {}
    for item in source["items"]:
        if item["key"] in found:
            files[item["path"]] = found[item["key"]]
        elif not source.get("optional"):
            raise ConfigError(f"references non-existent config key: {item['key']} in {title}")
    return files


def _described(pod: Manifest, spec: Manifest, item: Mapping[str, Any]) -> bytes:
    if "fieldRef" in item:
        path = item["fieldRef"]["fieldPath"]
        if path in ("metadata.labels", "metadata.annotations"):
            return _listed(pod["metadata"].get(path.partition(".")[2])).encode()
        return field_value(pod, path).encode()
    return resource_value(pod, spec, item["resourceFieldRef"]).encode()


def _listed(pairs: Mapping[str, Any] | None) -> str:
    return "\n".join(f"{key}={json.dumps(value)}" for key, value in sorted((pairs or {}).items()))


def below(folder: Path, *names: str) -> Path:
    """A path below a folder that a Pod names. Raises ConfigError if it leads out of the folder."""
    try:
        return path_below(folder, *names)
    except LeadsOutside as error:
        raise ConfigError(f'path "{"/".join(names)}" must be relative and must not contain "..": {error}') from None


def _cut(name: str, most_bytes: int) -> str:
    return name.encode()[:most_bytes].decode(errors="ignore")


def write_tree(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes the files with mode 0600, each atomically, because a program may read it.

    Raises ConfigError for a path that leads out of the folder.
    """
    for name, content in files.items():
        destination = below(folder, *(PurePosixPath(name).parts or ("",)))
        if destination.is_file() and destination.read_bytes() == content:
            continue
        destination.parent.mkdir(parents=True, exist_ok=True)
        fresh = destination.with_name(f".{_cut(destination.name, LONGEST_NAME - len('..new'))}.new")
        # O_EXCL: a program may have created a link of this name.
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        fresh.replace(destination)


@dataclass(frozen=True)
class Files:
    """The files of a container."""

    mounts: tuple[tuple[Path, str], ...] = ()
    """(source, target for the program); empty without support for mounts."""
    moved: tuple[tuple[Path, str], ...] = ()
    """The same, to replace paths in texts, without support for mounts."""
    root: Path = Path()
    env: Mapping[str, str] = field(default_factory=dict)

    def replaced(self, text: str) -> str:
        """The text with paths of the Pod replaced by paths of this machine."""
        for source, target in sorted(self.moved, key=lambda pair: -len(pair[1])):
            whole = rf"(?<![\w/]){re.escape(target.rstrip('/'))}(?=/|$|[^\w.-])"
            text = re.sub(whole, str(source).replace("\\", r"\\"), text)
        return text


async def lay_out(pod: Manifest, spec: Manifest, api: PodApi, context: NodeContext) -> Files:
    """Writes the container's files into the Pod's folder. Raises ConfigError."""
    folder = context.folder_of(pod)
    shown = await lay_out_volumes(pod, spec, api, context)
    env, credentials = await _credentials(pod, api, context, folder)
    if credentials and all(target.rstrip("/") != CREDENTIALS for _, target in shown):
        shown.append((credentials, CREDENTIALS))
    root = _root(folder)
    if context.mounts:
        return Files(tuple(shown), (), root, env)
    return Files((), tuple(shown), root, env)


async def lay_out_volumes(pod: Manifest, spec: Manifest, api: PodApi, context: NodeContext) -> list[tuple[Path, str]]:
    """Writes the volumes of a container; (source, target for the program) of each. Raises ConfigError."""
    folder = context.folder_of(pod)
    shown: list[tuple[Path, str]] = []
    declared = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for mount in spec.get("volumeMounts") or ():
        if mount["name"] not in declared:
            raise ConfigError(f'volume "{mount["name"]}" not found')
        destination = await provide(pod, spec, declared[mount["name"]], folder / "volumes", api)
        inside = PurePosixPath(mount.get("subPath") or "").parts
        shown.append((below(destination, *inside), mount["mountPath"]))
    return shown


def only_volumes(pod: Manifest, context: NodeContext) -> tuple[tuple[tuple[Path, str], ...], Path]:
    """Mounts that hide all of the data folder but the Pod's volumes from a built-in program, and the folder for its
    root.

    No mounts if the machine does not support them, or if penstock itself is installed below the data folder.
    """
    needed = (sys.prefix, sys.base_prefix, __file__)
    if not context.mounts or any(Path(one).resolve().is_relative_to(context.data_dir) for one in needed):
        return (), Path()
    folder = context.folder_of(pod)
    root, volumes_folder = _root(folder), folder / "volumes"
    volumes_folder.mkdir(exist_ok=True)
    return ((root, str(context.data_dir)), (volumes_folder, str(volumes_folder))), root


def _root(folder: Path) -> Path:
    """An empty folder for the new root of a program."""
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    return root


async def refresh(pod: Manifest, spec: Manifest, api: PodApi, context: NodeContext) -> None:
    """Updates the volumes of a running program. Raises ConfigError."""
    folder, mounted = context.folder_of(pod) / "volumes", {mount["name"] for mount in spec.get("volumeMounts") or ()}
    for volume in pod["spec"].get("volumes") or ():
        if volume["name"] in mounted:
            await refresh_volume(pod, spec, volume, folder, api)


async def _credentials(
    pod: Manifest, api: PodApi, context: NodeContext, folder: Path
) -> tuple[dict[str, str], Path | None]:
    """The environment variables and the folder with credentials for API clients in Pods."""
    if not context.api_url:
        return {}, None
    token = None
    if pod["spec"].get("automountServiceAccountToken") is not False:
        token = await api.token(pod, pod["spec"].get("serviceAccountName") or "default")
    kubeconfig = folder / "kubeconfig"
    namespace = pod["metadata"]["namespace"]
    write_tree(folder, {"kubeconfig": _kubeconfig(context, namespace, token)})
    env = {
        "KUBERNETES_SERVICE_HOST": context.api_host,
        "KUBERNETES_SERVICE_PORT": str(context.api_port),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(context.api_port),
        # Overrides the user's own kubeconfig, which is for another cluster.
        "KUBECONFIG": str(kubeconfig),
    }
    if token is None:
        return env, None
    destination = folder / "serviceaccount"
    entries = {"token": token.encode(), "ca.crt": context.authority, "namespace": namespace.encode()}
    write_tree(destination, entries)
    return env, destination


def _kubeconfig(context: NodeContext, namespace: str, token: str | None) -> bytes:
    authority = base64.b64encode(context.authority).decode()
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pod",
        "clusters": [
            {"name": "penstock", "cluster": {"server": context.api_url, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "pod", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "pod", "context": {"cluster": "penstock", "user": "pod", "namespace": namespace}}],
    }
    return yaml.safe_dump(config, sort_keys=False).encode()
