"""The command and base environment of a container, from the setting of its image and from the Pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from penstock.workloads.images import Program
from penstock.workloads.processes.environment import ConfigError, expand

PASSED_ON = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
"""Variables that programs inherit from penstock. All others are set by the Pod."""

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
"""Variables that can make a program run other code: a Pod may not set them for an image with a command, unless the
setting allows it. The list cannot be complete."""

UNPROXIED = "localhost,127.0.0.1,::1,127.0.0.0/8"


@dataclass(frozen=True)
class Proxies:
    """The proxies through which programs of Pods reach Services by name."""

    plain: str
    """URL of the proxy for HTTP."""
    tunnels: str
    """URL of the proxy for HTTPS (CONNECT)."""
    password: str
    """The password of both proxies."""

    def variables(self, namespace: str) -> dict[str, str]:
        """The environment variables for HTTP clients."""
        # The user name is the namespace for short names: `http://sink` is a Service of the Pod's namespace.
        user = f"://{namespace}:{self.password}@"
        plain, secure = (url.replace("://", user, 1) for url in (self.plain, self.tunnels))
        names = {"http_proxy": plain, "HTTP_PROXY": plain, "https_proxy": secure, "HTTPS_PROXY": secure}
        return names | {"no_proxy": UNPROXIED, "NO_PROXY": UNPROXIED}


def command_of(container: Mapping[str, Any], program: Program, env: Mapping[str, str]) -> list[str]:
    """The command line, with `$(NAME)` replaced. The command of the setting overrides the Pod's `command`, which is a
    path in an image. Raises ConfigError."""
    entry = [*(program.command or container.get("command") or ())]
    if not entry:
        raise ConfigError(f"no command specified: {program.setting} leaves it to the Pod, and the Pod has none")
    return [expand(word, env) for word in (*entry, *(container.get("args") or ()))]


def check_variables(names: Iterable[str], program: Program) -> None:
    """Raises ConfigError for variables that the Pod may not set. A Pod that runs its own command may set any."""
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
    """The environment of every program, to which the Pod's variables are added."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    return {
        **{name: own[name] for name in PASSED_ON if name in own},
        **(proxies.variables(metadata["namespace"]) if proxies is not None else {}),
        "HOSTNAME": str(metadata["name"]),
        "POD_IP": str(status.get("podIP") or ""),
        "PORT": str(port),
    }


def first_port(container: Mapping[str, Any], default: int) -> int:
    """The first containerPort."""
    ports = container.get("ports") or ()
    return int(ports[0]["containerPort"]) if ports else default


def exit_code(returned: int) -> int:
    """The exit code as in containers: 128 plus the signal's number for a program that was ended by a signal."""
    return 128 - returned if returned < 0 else returned
