"""Volumes as folders below the data folder: of ConfigMaps, Secrets, fields of the Pod, or empty."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from penstock.private_files import LONGEST_NAME, LeadsOutside, path_below
from penstock.workloads.kubernetes import Manifest, PodApi
from penstock.workloads.processes.environment import ConfigError, Kind, field_value, resource_value

KNOWN = ("configMap", "secret", "emptyDir", "projected", "downwardAPI")


async def provide(pod: Manifest, spec: Manifest, volume: Manifest, folder: Path, api: PodApi) -> Path:
    """The volume's folder, filled. Raises ConfigError."""
    place = below(folder, volume["name"])
    if "emptyDir" in volume:
        place.mkdir(parents=True, exist_ok=True)
        return place
    kind = next((kind for kind in KNOWN if kind in volume), None)
    if kind is None:
        raise ConfigError(f'volume "{volume["name"]}" is of a kind that does not exist here: {", ".join(KNOWN)} do')
    write_tree(place, await _contents(pod, spec, {kind: volume[kind] or {}}, api))
    return place


async def refresh(pod: Manifest, spec: Manifest, volume: Manifest, folder: Path, api: PodApi) -> None:
    """Writes what the ConfigMaps and Secrets of a volume hold by now into its folder. Raises ConfigError."""
    place, source = below(folder, volume["name"]), _changing(volume)
    if source and place.is_dir():
        write_tree(place, await _contents(pod, spec, source, api))


def changes(volume: Manifest) -> bool:
    """Whether what the volume shows may change while a program runs."""
    return bool(_changing(volume))


def _changing(volume: Manifest) -> Manifest:
    """What of a volume comes from ConfigMaps and Secrets. A token of the Pod's ServiceAccount is made once."""
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
    for field, kind in (("configMap", "configmap"), ("secret", "secret")):
        if field in source:
            return await _entries(pod, source[field], kind, api)  # type: ignore[arg-type]  # the pairs above
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
    """The entries that `items` names, at their paths; all of them where it names none. Raises ConfigError."""
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
    """The place below a folder that a Pod names. Raises ConfigError where it would be elsewhere."""
    try:
        return path_below(folder, *names)
    except LeadsOutside as error:
        raise ConfigError(f'path "{"/".join(names)}" must be relative and must not contain "..": {error}') from None


def _cut(name: str, most_bytes: int) -> str:
    return name.encode()[:most_bytes].decode(errors="ignore")


def write_tree(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes the files, readable by their owner only, each as a whole: a program may be reading it. Raises ConfigError
    for a path that leads out of the folder."""
    for name, content in files.items():
        place = below(folder, *(PurePosixPath(name).parts or ("",)))
        if place.is_file() and place.read_bytes() == content:
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(f".{_cut(place.name, LONGEST_NAME - len('..new'))}.new")
        # A program may have made a link of this name: what is written goes into a new file.
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        fresh.replace(place)
