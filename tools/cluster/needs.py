"""What a cluster on one machine needs that pip does not install; told in the first seconds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import psutil

from penstock.engine import java
from penstock.runtime.errors import UserError
from tools.cluster import kubernetes_binaries as binaries
from tools.cluster.kubernetes import kubectl_program, own_address

MEMORY_MIB = 7000
BUILD_DISK_MIB = 4000


def missing() -> Iterator[UserError]:
    """Everything that is missing."""
    for look in (java.find, kubectl_program, own_address):
        try:
            look()
        except UserError as problem:
            yield problem
    if binaries.missing(*binaries.PROGRAMS) and shutil.which("go") is None:
        yield UserError(binaries.NO_GO, "It builds kube-apiserver and etcd, once.")
    memory = psutil.virtual_memory().available // 2**20
    if memory < MEMORY_MIB:
        yield UserError(f"{memory} MiB of memory are available; the cluster takes {MEMORY_MIB}.", "End something else.")
