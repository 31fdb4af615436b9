"""What a container runs: the setting of its image and what the Pod says, with `$(NAME)` replaced. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.workloads.images import Program
from penstock.workloads.processes.environment import ConfigError, expand

PASSED_ON = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
"""What a program gets of penstock's own environment. Everything else it needs, the Pod says."""

UNPROXIED = "localhost,127.0.0.1,::1,127.0.0.0/8"


def command_of(container: Mapping[str, Any], program: Program, env: Mapping[str, str]) -> list[str]:
    """The command line. A command that the setting names is what runs, whatever the Pod's `command` says: that one
    means a file in an image. Raises ConfigError."""
    entry = [*(program.command or container.get("command") or ())]
    if not entry:
        raise ConfigError(f"no command specified: {program.setting} leaves it to the Pod, and the Pod has none")
    return [expand(word, env) for word in (*entry, *(container.get("args") or ()))]


def base_environment(
    pod: Mapping[str, Any], own: Mapping[str, str], *, port: int, proxy: str, tunnels: str
) -> dict[str, str]:
    """What every program has in its environment before its Pod adds to it."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    # A proxy learns from the user's name whose names are meant: `http://sink` is a Service of the Pod's namespace.
    user = f"://{metadata['namespace']}@"
    through, secure = (url.replace("://", user, 1) for url in (proxy, tunnels))
    names = {"http_proxy": through, "HTTP_PROXY": through, "https_proxy": secure, "HTTPS_PROXY": secure}
    names |= {"no_proxy": UNPROXIED, "NO_PROXY": UNPROXIED}
    return {
        **{name: own[name] for name in PASSED_ON if name in own},
        **(names if proxy else {}),
        "HOSTNAME": str(metadata["name"]),
        "POD_IP": str(status.get("podIP") or ""),
        "PORT": str(port),
    }


def first_port(container: Mapping[str, Any], default: int) -> int:
    """The port that the container says it listens on."""
    ports = container.get("ports") or ()
    return int(ports[0]["containerPort"]) if ports else default


def exit_code(returned: int) -> int:
    """The exit code as containers have it: 128 and the signal's number where a signal ended the program."""
    return 128 - returned if returned < 0 else returned
