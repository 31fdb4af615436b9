"""What Kubernetes demands of the names, paths and ports in a Pod's spec, and of keys of ConfigMaps and Secrets.

The texts and the paths of fields are those of `pkg/apis/core/validation` in Kubernetes and of its `apimachinery`, also
where a path lacks an index.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from penstock.kube.paths import segment_faults
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, missing

Spec = Mapping[str, Any]
Rule = Callable[[str], list[str]]
"""What is wrong with a value; empty: nothing."""

LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253
LONGEST_PORT_NAME = 15
LONGEST_SHOWN = 400

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_ENVIRONMENT = re.compile(r"[ -<>-~]*")
_ENVIRONMENT_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_PORT_NAME = re.compile(r"[-a-z0-9]+")


class Fault(NamedTuple):
    """What is wrong with one field."""

    path: str
    kind: Literal["Required", "Invalid", "Duplicate", "NotFound"]
    value: str | int = ""
    rule: str = ""

    @property
    def reason(self) -> str:
        """The machine-readable cause in a response of Kubernetes."""
        return f"FieldValue{self.kind}"

    @property
    def text(self) -> str:
        """What is wrong, without the field."""
        kind = {"NotFound": "Not found"}.get(self.kind, f"{self.kind} value")
        shown = "" if self.kind == "Required" else f": {json.dumps(self.value, ensure_ascii=False)[:LONGEST_SHOWN]}"
        return f"{kind}{shown}" + (f": {self.rule}" if self.rule else "")


def dns_label(value: str) -> list[str]:
    """The rule for names of volumes and containers."""
    wrong = [f"must be no more than {LONGEST_LABEL} characters"] if len(value) > LONGEST_LABEL else []
    if not LABEL.fullmatch(value):
        wrong.append("must not contain dots" if SUBDOMAIN.fullmatch(value) else LABEL_RULE)
    return wrong


def dns_subdomain(value: str) -> list[str]:
    """The rule for names of most objects."""
    wrong = [f"must be no more than {LONGEST_SUBDOMAIN} characters"] if len(value) > LONGEST_SUBDOMAIN else []
    return wrong if SUBDOMAIN.fullmatch(value) else [*wrong, SUBDOMAIN_RULE]


def _name_or_prefix(value: str) -> list[str]:
    """The rule for a name in `envFrom`, which Kubernetes lets end with a hyphen, as the prefix of a name may."""
    return dns_subdomain(f"{value[:-1]}a" if len(value) > 1 and value.endswith("-") else value)


def port_name(value: str) -> list[str]:
    """The rule for names of ports."""
    broken = {
        f"must be no more than {LONGEST_PORT_NAME} characters": len(value) > LONGEST_PORT_NAME,
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)": not _PORT_NAME.fullmatch(value),
        "must contain at least one letter (a-z)": not re.search("[a-z]", value),
        "must not contain consecutive hyphens": "--" in value,
        "must not begin or end with a hyphen": value.startswith("-") or value.endswith("-"),
    }
    return [rule for rule, is_broken in broken.items() if is_broken]


def environment_name(value: str) -> list[str]:
    """The rule for names of environment variables."""
    return [] if _ENVIRONMENT.fullmatch(value) else [_ENVIRONMENT_RULE]


def data_key(value: str) -> list[str]:
    """The rule for keys of ConfigMaps and Secrets."""
    wrong = [f"must be no more than {LONGEST_SUBDOMAIN} characters"] if len(value) > LONGEST_SUBDOMAIN else []
    if not _KEY.fullmatch(value):
        wrong.append(_KEY_RULE)
    if value in (".", ".."):
        wrong.append(f"must not be '{value}'")
    elif value.startswith(".."):
        wrong.append("must not start with '..'")
    return wrong


def descending_path(value: str) -> list[str]:
    """The rule for `subPath`."""
    wrong = ["must be a relative path"] if value.startswith("/") else []
    return [*wrong, "must not contain '..'"] if ".." in value.split("/") else wrong


def file_path(value: str) -> list[str]:
    """The rule for paths of files in volumes."""
    reserved = value.startswith("..") and not value.startswith("../")
    return descending_path(value) + ["must not start with '..'"] * reserved


def data_faults(field: str, data: Mapping[str, Any] | None) -> list[Fault]:
    """What is wrong with the keys of a ConfigMap or Secret."""
    return [Fault(f"{field}[{key}]", "Invalid", key, rule) for key in data or () for rule in data_key(key)]


def pod_faults(spec: Spec, path: str) -> list[Fault]:
    """What is wrong in the spec of a Pod or of a template."""
    volumes, faults = _volumes(spec.get("volumes") or (), f"{path}.volumes")
    mains = spec.get("containers") or ()
    names: set[str] = set()
    for field, containers in (("containers", mains), ("initContainers", spec.get("initContainers") or ())):
        for where, container in _numbered(f"{path}.{field}", containers):
            faults += _container(container, where, volumes)
            name = container.get("name") or ""
            if name in names:
                faults.append(Fault(f"{where}.name", "Duplicate", name))
            if name or field == "containers":
                names.add(name)
    if account := spec.get("serviceAccountName"):
        faults += _invalid(f"{path}.serviceAccountName", account, dns_subdomain)
    return faults


def template_errors(spec: Spec, old: Spec | None) -> FieldErrors:
    """What is wrong in `template` of the spec of a Knative object, in Knative's words. A template that does not change
    is not checked: it may be older than these rules."""
    pod = (spec.get("template") or {}).get("spec") or {}
    if old is not None and pod == (((old.get("spec") or {}).get("template") or {}).get("spec") or {}):
        return []
    return [_knative(fault) for fault in pod_faults(pod, "template.spec")]


def _knative(fault: Fault) -> FieldError:
    if fault.kind == "Required":
        return missing(fault.path)
    if fault.kind == "Invalid":
        return invalid(fault.value, fault.path, fault.rule)
    if fault.kind == "NotFound":
        return FieldError("volumeMount has no matching volume", (fault.path,))
    listed = re.findall(r"(\w+)\[", fault.path)[-1]
    what = {"volumes": "volume", "ports": "port"}.get(listed, "container")
    return FieldError(f'duplicate {what} name "{fault.value}"', (fault.path,))


def _volumes(volumes: Sequence[Spec], path: str) -> tuple[set[str], list[Fault]]:
    """The names of those volumes that are as they should be, and what is wrong with the others."""
    names: set[str] = set()
    faults: list[Fault] = []
    for where, volume in _numbered(path, volumes):
        name = volume.get("name") or ""
        found = _source(volume, where) + _named(f"{where}.name", name, dns_label)
        if name in names:
            found.append(Fault(f"{where}.name", "Duplicate", name))
        if not found:
            names.add(name)
        faults += found
    return names, faults


def _source(volume: Spec, where: str) -> list[Fault]:
    faults: list[Fault] = []
    if (secret := volume.get("secret")) is not None:
        faults += _object_volume(secret, f"{where}.secret", "secretName")
    if (config_map := volume.get("configMap")) is not None:
        faults += _object_volume(config_map, f"{where}.configMap", "name")
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        faults += _file(f"{where}.downwardAPI.path", item.get("path"))
    projected = f"{where}.projected"
    for place, source in _numbered(f"{projected}.sources", (volume.get("projected") or {}).get("sources") or ()):
        for kind in ("secret", "configMap"):
            if (one := source.get(kind)) is not None:
                faults += _object_volume(one, f"{place}.{kind}", "name")
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            faults += _file(f"{place}.downwardAPI.path", item.get("path"))
        if (token := source.get("serviceAccountToken")) is not None:
            faults += _file(f"{projected}.path", token.get("path"))
    return faults


def _object_volume(source: Spec, where: str, field: str) -> list[Fault]:
    name = source.get(field) or ""
    # Kubernetes stores any name here, but a kubelet cannot request one that is not a path segment.
    faults = _named(f"{where}.{field}", name, segment_faults)
    for place, item in _numbered(f"{where}.items", source.get("items") or ()):
        if not item.get("key"):
            faults.append(Fault(f"{place}.key", "Required"))
        faults += _file(f"{place}.path", item.get("path"))
    return faults


def _file(where: str, path: str | None) -> list[Fault]:
    return _named(where, path or "", file_path)


def _container(container: Spec, where: str, volumes: set[str]) -> list[Fault]:
    faults = _named(f"{where}.name", container.get("name") or "", dns_label)
    faults += _ports(container.get("ports") or (), f"{where}.ports")
    for place, entry in _numbered(f"{where}.env", container.get("env") or ()):
        faults += _named(f"{place}.name", entry.get("name") or "", environment_name)
        for kind in ("configMapKeyRef", "secretKeyRef"):
            if (ref := (entry.get("valueFrom") or {}).get(kind)) is not None:
                faults += _invalid(f"{place}.valueFrom.{kind}.name", ref.get("name") or "", dns_subdomain)
                faults += _named(f"{place}.valueFrom.{kind}.key", ref.get("key") or "", data_key)
    for place, source in _numbered(f"{where}.envFrom", container.get("envFrom") or ()):
        faults += _invalid(f"{place}.prefix", source.get("prefix") or "", environment_name)
        for kind in ("configMapRef", "secretRef"):
            if (ref := source.get(kind)) is not None:
                faults += _named(f"{place}.{kind}.name", ref.get("name") or "", _name_or_prefix)
    return faults + _mounts(container.get("volumeMounts") or (), f"{where}.volumeMounts", volumes)


def _ports(ports: Sequence[Spec], path: str) -> list[Fault]:
    faults: list[Fault] = []
    names: set[str] = set()
    for where, port in _numbered(path, ports):
        name = port.get("name") or ""
        wrong = _invalid(f"{where}.name", name, port_name) if name else []
        if name in names:
            wrong.append(Fault(f"{where}.name", "Duplicate", name))
        elif name and not wrong:
            names.add(name)
        faults += wrong
        if not port.get("containerPort"):
            faults.append(Fault(f"{where}.containerPort", "Required"))
        for field in ("containerPort", "hostPort"):
            number = port.get(field) or 1
            if not 1 <= number <= 65535:
                faults.append(Fault(f"{where}.{field}", "Invalid", number, "must be between 1 and 65535, inclusive"))
    return faults


def _mounts(mounts: Sequence[Spec], path: str, volumes: set[str]) -> list[Fault]:
    faults: list[Fault] = []
    places: set[str] = set()
    for where, mount in _numbered(path, mounts):
        name, place = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            faults.append(Fault(f"{where}.name", "Required"))
        if name not in volumes:
            faults.append(Fault(f"{where}.name", "NotFound", name))
        if not place:
            faults.append(Fault(f"{where}.mountPath", "Required"))
        if place in places:
            faults.append(Fault(f"{where}.mountPath", "Invalid", place, "must be unique"))
        places.add(place)
        for field in ("subPath", "subPathExpr"):
            # Kubernetes reports these without the index of the mount.
            faults += _invalid(f"{path}.{field}", mount.get(field) or "", descending_path)
    return faults


def _numbered(path: str, items: Iterable[Spec]) -> Iterable[tuple[str, Spec]]:
    return ((f"{path}[{number}]", item) for number, item in enumerate(items))


def _named(path: str, value: str, rule: Rule) -> list[Fault]:
    return _invalid(path, value, rule) if value else [Fault(path, "Required")]


def _invalid(path: str, value: str, rule: Rule) -> list[Fault]:
    return [Fault(path, "Invalid", value, broken) for broken in rule(value)]
