"""Compiles Kubernetes' .proto files, and that of OpenAPI v2, into the descriptor sets that the API server reads.

The files come with the Go modules that go.mod pins. Arguments: the folder to write into. Needs Go and grpcio-tools.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).parent
GROUPS = (
    *("core", "apps", "batch", "coordination", "discovery", "events"),
    *("rbac", "authorization", "authentication", "autoscaling", "networking"),
)
KUBERNETES = [
    *(f"k8s.io/api/{group}/v1/generated.proto" for group in GROUPS),
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/generated.proto",
]
MODULES = ("k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver", "github.com/google/gnostic-models")


def folder_of(module: str) -> Path:
    """Where the Go command keeps the sources of a module."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    return Path(subprocess.run(command, cwd=HERE, check=True, capture_output=True, text=True).stdout.strip())


def compile_into(target: Path, roots: Path, files: list[str]) -> None:
    """Writes the descriptors of the files and of all they import."""
    well_known = resources.files("grpc_tools").joinpath("_proto")
    sources = [f"-I{roots}", f"-I{well_known}"]
    status = protoc.main(["protoc", *sources, "--include_imports", f"--descriptor_set_out={target}", *files])
    if status:
        raise SystemExit(status)


def main(folder: Path) -> None:
    """Both sets."""
    subprocess.run(["go", "mod", "download", *MODULES], cwd=HERE, check=True)
    with tempfile.TemporaryDirectory() as temporary:
        roots = Path(temporary)
        for module in MODULES:
            (roots / module).parent.mkdir(parents=True, exist_ok=True)
            (roots / module).symlink_to(folder_of(module))
        compile_into(folder / "kubernetes.binpb", roots, KUBERNETES)
        compile_into(folder / "openapi_v2.binpb", roots / MODULES[-1], ["openapiv2/OpenAPIv2.proto"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
