"""kube-apiserver, etcd and Helm, built from the Go module proxy, the first two as pinned in conformance/kubernetes.

`make kube-apiserver` builds what is missing; `make test-cluster` needs no Helm.

The first build takes minutes: 8 minutes of processor time with Go 1.26. What was built is kept in the cache folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

MODULE = Path(__file__).parents[2] / "conformance" / "kubernetes"
PROGRAMS = {"etcd": "go.etcd.io/etcd/server/v3", "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver"}
HELM = "helm.sh/helm/v3/cmd/helm@v3.20.2"
ALL = (*PROGRAMS, "helm")
NO_GO = "go is not on the PATH. Install Go 1.24 or newer (Debian/Ubuntu: apt install golang-go)."
TELL_EVERY = 50
"""Packages between two lines of progress."""


def version() -> str:
    """Of Kubernetes, as it is pinned."""
    found = re.search(r"^(?:require)?\s*k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"{MODULE}/go.mod does not say which Kubernetes it wants")
    return found[1]


def folder() -> Path:
    """Where the programs are kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "penstock" / "kubernetes" / version()


def helm() -> Path:
    """Helm, which renders and checks the chart."""
    return folder() / "helm"


def missing(*wanted: str) -> list[str]:
    """Those of the programs that have not been built yet."""
    return [name for name in wanted or ALL if not (folder() / name).is_file()]


def build(*wanted: str) -> int:
    """Builds those that are missing and tells how far it is; the exit code, 2 where there is no Go."""
    if not missing(*wanted):
        print(f"{', '.join(wanted or ALL)} of Kubernetes {version()} are in {folder()}")
        return 0
    if shutil.which("go") is None:
        print(NO_GO)
        return 2
    folder().mkdir(parents=True, exist_ok=True)
    if "helm" in missing(*wanted):
        print("building helm", flush=True)
        install = ["go", "install", HELM]
        if code := subprocess.run(install, env={**os.environ, "GOBIN": str(folder())}, check=False).returncode:
            return code
    for name in missing(*wanted):
        listed = subprocess.run(
            ["go", "list", "-deps", PROGRAMS[name]], cwd=MODULE, capture_output=True, text=True, check=False
        )
        total = len(listed.stdout.splitlines())
        print(f"building {name}, {total} packages", flush=True)
        if code := _build(name, total):
            return code
    return 0


def _told_version() -> str:
    """Without it the API server would say that it is version 0.0.0, and charts would not trust it."""
    major, minor, _ = version().removeprefix("v").split(".")
    told = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in told.items())


def _build(name: str, total: int) -> int:
    unfinished = folder() / f"{name}.unfinished"
    command = ["go", "build", "-v", "-ldflags", _told_version(), "-o", str(unfinished), PROGRAMS[name]]
    building = subprocess.Popen(command, cwd=MODULE, stderr=subprocess.PIPE, text=True)
    assert building.stderr is not None
    said = []
    for done, line in enumerate(building.stderr, 1):
        said.append(line)
        if done % TELL_EVERY == 0:
            print(f"  {done} of {total} at most", flush=True)
    if building.wait() != 0:
        print("".join(said[-20:]))
        return building.returncode
    unfinished.rename(folder() / name)
    return 0


if __name__ == "__main__":
    sys.exit(build(*sys.argv[1:]))
