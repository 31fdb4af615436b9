"""`make jars`: fetches the jars that the Ivy files ask for and writes their names, sums and licences down.

Who runs it decides what every installation will accept, so the change of the list is to be read like any other.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree  # reports of the Ivy that was just run here, nobody else's

import msgspec

from penstock.engine import java
from penstock.engine.jars import ivy, pinned_jars
from penstock.engine.jars.pinned_jars import PinnedJar

TARGET = Path(pinned_jars.__file__).with_name(pinned_jars.FILE)


def main() -> int:
    """Writes the list. The exit code."""
    found = {wanted.file: _fetched(wanted) for wanted in (ivy.PIPELINE, ivy.HISTORY)}
    TARGET.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    print(f"{sum(map(len, found.values()))} jars pinned in {TARGET}")
    return 0


def _fetched(wanted: ivy.JarSet) -> list[PinnedJar]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-jars-"))
    try:
        ivy.fetch(folder, java.find_java(), lambda done, total, what: None, wanted)
        reports = {name: next((folder / "ivy").glob(f"penstock-*-{name}.xml")) for name in wanted.configurations}
        jars = [jar for name, report in reports.items() for jar in described(name, report.read_text(), folder)]
    finally:
        shutil.rmtree(folder)
    return sorted(jars, key=lambda jar: jar.file)


def described(configuration: str, report: str, folder: Path) -> Iterator[PinnedJar]:
    """The jars of one of Ivy's reports, with the sums of the files in the folder."""
    for module in ElementTree.fromstring(report).iter("module"):
        for revision in module.iter("revision"):
            if revision.get("evicted") is not None:  # another version took its place
                continue
            version, licences = revision.get("name", ""), [each.get("name", "") for each in revision.iter("license")]
            for artifact in revision.iter("artifact"):
                name = artifact.get("name", "")
                file = f"{configuration}/{name}-{version}.{artifact.get('ext')}"
                organisation = module.get("organisation", "")
                yield PinnedJar(file, organisation, name, version, pinned_jars.sha256(folder / file), licences)


if __name__ == "__main__":
    sys.exit(main())
