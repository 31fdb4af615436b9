"""mypy over the tests, as strict as over the code: `python tests/check_types.py`.

The tests are no package: each folder is a place to import from, as it is for pytest, and a module goes by its bare
name. Only the conftests, whose name is there many times, go by where they are.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

from mypy import api

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent


def module_name(path: Path) -> str:
    """The name mypy knows the module by: for all but a conftest the one that pytest imports it by."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts) if path.stem == "conftest" else path.stem


def main() -> int:
    """Prints what mypy finds; its exit code."""
    files = sorted(TESTS.rglob("*.py"))
    names = [module_name(path) for path in files]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        print(f"Two files of the tests have the same name, so that only one is imported: {', '.join(twice)}")
        return 1
    os.chdir(ROOT)  # where mypy's settings are
    os.environ["MYPYPATH"] = os.pathsep.join(sorted({str(path.parent) for path in files}))
    found, errors, code = api.run([argument for name in names for argument in ("-m", name)])
    print(found + errors, end="")
    return code


if __name__ == "__main__":
    sys.exit(main())
