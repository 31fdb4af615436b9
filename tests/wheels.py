"""penstock as a wheel, installed where nothing else of this repository is."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path


def installed(source: Path, folder: Path) -> Path:
    """The `bin` folder of an environment below `folder` that has the wheel of this source, and this environment's
    packages for what it depends on."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    [wheel] = folder.glob("penstock-*.whl")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    python = folder / "env" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    purelib = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    # A path line adds the packages, but not this repository: editable installs are not followed from there.
    Path(purelib, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent
