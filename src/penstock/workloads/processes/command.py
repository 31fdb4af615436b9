"""What a container runs: the setting of its image and what the Pod says, with `$(NAME)` replaced. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from penstock.workloads.images import Program
from penstock.workloads.processes.environment import ConfigError, expand

PASSED_ON = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
"""What a program gets of penstock's own environment. Everything else it needs, the Pod says."""

RUN_OTHER_CODE = (
    # The loader, the C library and OpenSSL
    *(
        "LD_*",
        "DYLD_*",
        "GCONV_PATH",
        "GLIBC_TUNABLES",
        "LOCPATH",
        "OPENSSL_CONF",
        "OPENSSL_ENGINES",
        "OPENSSL_MODULES",
    ),
    # Where programs are found, and where many of them find what to run first
    *("PATH", "HOME", "XDG_CONFIG_*", "XDG_DATA_*"),
    # Shells
    *("BASH_ENV", "BASH_FUNC_*", "BASHOPTS", "ENV", "IFS", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "ZDOTDIR"),
    # Python
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX"),
    *("PYTHONBREAKPOINT", "PYTHONINSPECT", "PYTHONWARNINGS", "PYTHONEXECUTABLE"),
    # Node.js, Java, .NET
    *("NODE_OPTIONS", "NODE_PATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH"),
    *("DOTNET_STARTUP_HOOKS", "CORECLR_*", "COR_PROFILER*", "COR_ENABLE_PROFILING"),
    # Perl, Ruby, PHP, Lua
    *("PERL5*", "PERLLIB", "RUBYOPT", "RUBYLIB", "GEM_HOME", "GEM_PATH", "BUNDLE_*", "PHPRC", "PHP_INI_SCAN_DIR"),
    *("LUA_INIT*", "LUA_PATH*", "LUA_CPATH*"),
    # Git
    "GIT_*",
)
"""Variables by which the program that a setting names would run other code than its own: a Pod may not set them, unless
the setting allows it. The list cannot be complete: whoever may run a program of this machine may find another way."""

UNPROXIED = "localhost,127.0.0.1,::1,127.0.0.0/8"


@dataclass(frozen=True)
class Proxies:
    """What leads programs of Pods to Services by name."""

    plain: str
    """URL of the one for HTTP."""
    tunnels: str
    """URL of the one for TLS."""
    password: str
    """Of both, for programs of Pods alone."""

    def variables(self, namespace: str) -> dict[str, str]:
        """By which HTTP clients find them."""
        # A proxy learns from the user's name whose names are meant: `http://sink` is a Service of the Pod's namespace.
        user = f"://{namespace}:{self.password}@"
        plain, secure = (url.replace("://", user, 1) for url in (self.plain, self.tunnels))
        names = {"http_proxy": plain, "HTTP_PROXY": plain, "https_proxy": secure, "HTTPS_PROXY": secure}
        return names | {"no_proxy": UNPROXIED, "NO_PROXY": UNPROXIED}


def command_of(container: Mapping[str, Any], program: Program, env: Mapping[str, str]) -> list[str]:
    """The command line. A command that the setting names is what runs, whatever the Pod's `command` says: that one
    means a file in an image. Raises ConfigError."""
    entry = [*(program.command or container.get("command") or ())]
    if not entry:
        raise ConfigError(f"no command specified: {program.setting} leaves it to the Pod, and the Pod has none")
    return [expand(word, env) for word in (*entry, *(container.get("args") or ()))]


def check_variables(names: Iterable[str], program: Program) -> None:
    """Raises ConfigError for a variable of the Pod that the program may not have. A Pod whose own command is run may
    run what it likes anyway."""
    if not program.command:
        return
    for name in names:
        refused = any(fnmatchcase(name, pattern) for pattern in RUN_OTHER_CODE)
        if refused and name not in program.allowed_variables:
            raise ConfigError(
                f'environment variable "{name}" may not be set for this image: it can make a program run other code. '
                f'allow_env = ["{name}"] in {program.setting} would allow it'
            )


def base_environment(
    pod: Mapping[str, Any], own: Mapping[str, str], *, port: int, proxies: Proxies | None
) -> dict[str, str]:
    """What every program has in its environment before its Pod adds to it."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    return {
        **{name: own[name] for name in PASSED_ON if name in own},
        **(proxies.variables(metadata["namespace"]) if proxies is not None else {}),
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
