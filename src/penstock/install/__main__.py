"""`python -m penstock.install FOLDER`: writes the generated files under `deploy/`."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.install import chart
from penstock.install.manifests import files
from penstock.install.values import Values


def everything() -> dict[str, str]:
    """Each file by its path below the folder."""
    plain = {f"manifests/{name}": content for name, content in files(Values()).items()}
    return {**plain, **{f"helm/{name}": content for name, content in chart.files().items()}}


def main(folder: Path) -> None:
    """Writes them."""
    for name, content in everything().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
