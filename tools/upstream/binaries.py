"""The suite and the programs its Pods run, built from the module proxy as pinned in conformance/upstream."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

MODULE = Path(__file__).parents[2] / "conformance" / "upstream"
SUITE = "knative.dev/eventing/test/rekt"
PROGRAMS = {
    "heartbeats": "knative.dev/eventing/cmd/heartbeats",
    "print": "knative.dev/eventing/test/test_images/print",
}
"""By the last part of their packages, which `go build` names them by. Tests ask for images of these packages."""
EVENTSHUB = "knative.dev/reconciler-test/cmd/eventshub"
"""Sends and receives in nearly every test. penstock brings an actor of that name: upstream's program listens on port
8080 of all addresses, so that only one could run on a machine."""
SHELL_IMAGE = "registry.access.redhat.com/ubi8/ubi"
"""The suite starts a Job of it for each receiver, which waits with curl until the Service answers."""

NEEDED = {
    "go": "Install Go 1.25 or newer: https://go.dev/doc/install (Debian/Ubuntu: apt install golang-go).",
    "kubectl": "Install it: https://kubernetes.io/docs/tasks/tools/.",
    "curl": "Install it (Debian/Ubuntu: apt install curl).",
}
"""The last one is what Pods of the shell image call."""


class NotBuilt(RuntimeError):
    """The suite cannot be built on this machine, and what to do about it."""


@dataclass(frozen=True)
class Binaries:
    """What was built."""

    folder: Path

    @property
    def suite(self) -> Path:
        """The tests."""
        return self.folder / "rekt.test"

    def images(self) -> dict[str, list[str]]:
        """Images of the tests with the commands that stand for them: Pods of them are local processes.

        For the shell there is none: Pods of it bring their own.
        """
        programs = {image(name): [str(self.folder / name)] for name in PROGRAMS}
        return {**programs, SHELL_IMAGE: []}

    def produced(self) -> dict[str, str]:
        """The image for each package that the suite asks for."""
        return {EVENTSHUB: image("eventshub"), **{package: image(name) for name, package in PROGRAMS.items()}}


def version() -> str:
    """Of the suite, as it is pinned."""
    pinned = ["go", "list", "-m", "-f", "{{.Version}}", "knative.dev/eventing"]
    return subprocess.run(pinned, cwd=MODULE, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def sources() -> Path:
    """The folder of the suite's module."""
    folder = ["go", "list", "-m", "-f", "{{.Dir}}", "knative.dev/eventing"]
    return Path(subprocess.run(folder, cwd=MODULE, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


def image(program: str) -> str:
    """The name of its image. It is in no registry."""
    return f"upstream.local/{program}"


def build(folder: Path) -> Binaries:
    """Builds what has changed; the first time takes minutes. Raises NotBuilt."""
    for program, remedy in NEEDED.items():
        if shutil.which(program) is None:
            raise NotBuilt(f"{program} is not on the PATH. {remedy}")
    binaries = Binaries(folder.absolute())
    binaries.folder.mkdir(parents=True, exist_ok=True)
    for command in (
        ["go", "build", "-o", f"{binaries.folder}/", *PROGRAMS.values()],
        ["go", "test", "-c", "-tags=e2e", "-o", str(binaries.suite), SUITE],
    ):
        done = subprocess.run(command, cwd=MODULE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise NotBuilt(f"{' '.join(command)} failed in {MODULE}:\n{done.stderr.strip()[-2000:]}")
    return binaries
