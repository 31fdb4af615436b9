"""`docs/licences.md`, which `make docs` writes: the licences of everything that is installed with penstock."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from penstock.engine.jars import pinned_jars
from penstock.engine.jars.pinned_jars import PinnedJar
from tools.dependencies import licences
from tools.dependencies.packages import Package, shipped

OPENING = """# Licences

penstock is under the [Apache License 2.0](https://www.apache.org/licenses/LICENSE-2.0). It is installed together with
what follows, none of which it changes or hands on itself: pip and the first start fetch it from its publishers.
`make docs` writes this page from the packages' own metadata. A test fails where one of them, or a tool of development,
is under a licence that is not in this list: {allowed}; the last is for what is used unchanged.

`make sbom` writes the same, with the jars inside pyspark and all sums, as CycloneDX JSON into `dist/`, where it goes
with each release.
"""


def page(packages: Sequence[Package], jars: Iterable[PinnedJar]) -> str:
    """The page in Markdown."""
    allowed = ", ".join([*sorted(licences.PERMISSIVE - {licences.PUBLIC_DOMAIN}), "public domain"])
    listed = f"{allowed}, {', '.join(sorted(licences.UNCHANGED_ONLY))}"
    python = [package_row(one) for one in packages]
    java = [jar_row(one) for one in jars]
    return "\n".join(
        [
            OPENING.format(allowed=listed),
            *("## Python packages", "", "| package | version | licence |", "|---|---|---|", *python, ""),
            *("## Jars", "", "| jar | version | licence |", "|---|---|---|", *java),
        ]
    )


def package_row(one: Package) -> str:
    """The line of a package."""
    return f"| {one.name} | {one.version} | {one.licence} |"


def jar_row(one: PinnedJar) -> str:
    """The line of a jar."""
    return f"| {one.organisation}:{one.name} | {one.version} | {licences.of_jar(one.licences)} |"


def main() -> int:
    """Prints the page. The exit code."""
    print(page(shipped()[1:], pinned_jars.every()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
