"""Class archives belong to one Java and one set of jars, appear whole, and never keep a program from starting."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.engine import class_archives
from penstock.engine.class_archives import ARCHIVES_KEPT, ClassArchive, archive_of

Answer = Callable[[str], bytes]


@pytest.fixture
def jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], int]]:
    """Listens as a JVM does and answers one diagnostic command; gives its pid."""
    monkeypatch.setattr(class_archives, "_attach_folder", lambda: tmp_path)
    servers: list[socket.socket] = []

    def start(answer: Answer) -> int:
        server = socket.socket(socket.AF_UNIX)
        servers.append(server)
        server.bind(str(tmp_path / ".java_pid77"))
        server.listen(1)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                request = b""
                while request.count(b"\0") < 5:
                    request += connection.recv(4096)
                connection.sendall(answer(request.decode()))

        threading.Thread(target=serve, daemon=True).start()
        return 77

    yield start
    for server in servers:
        server.close()


def dumps(request: str) -> bytes:
    """What a JVM does when it is asked for an archive."""
    version, word, line, *_ = request.split("\0")
    assert (version, word) == ("1", "jcmd")
    verb, action, target = line.split(" ", 2)
    assert (verb, action) == ("VM.cds", "dynamic_dump")
    Path(target.strip('"')).write_bytes(b"classes")
    return b"0\nDynamic archive has been written."


def test_a_change_of_java_or_of_a_jar_makes_it_another_archive(tmp_path: Path) -> None:
    home, jar = tmp_path / "java", tmp_path / "a.jar"
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "modules").write_text("17")
    jar.write_text("1")
    first = archive_of("kafka", tmp_path, home, [jar])
    assert archive_of("kafka", tmp_path, home, [jar]) == first
    jar.write_text("12")
    second = archive_of("kafka", tmp_path, home, [jar])
    (home / "lib" / "modules").write_text("17.1")
    third = archive_of("kafka", tmp_path, home, [jar])
    fourth = archive_of("kafka", tmp_path, home, [jar, tmp_path / "b.jar"])
    assert len({first, second, third, fourth}) == 4


def whole(archive: ClassArchive) -> Path:
    """The file of an archive that is there."""
    file = archive.find()
    assert file is not None
    return file


def test_without_an_archive_the_jvm_can_make_one_and_with_it_uses_it(
    tmp_path: Path, jvm: Callable[[Answer], int]
) -> None:
    archive = ClassArchive(tmp_path / "archives", "kafka-1")
    assert "-XX:+RecordDynamicDumpInfo" in archive.options()
    assert archive.make(jvm(dumps))
    assert f"-XX:SharedArchiveFile={whole(archive)}" in archive.options()
    assert "-Xshare:auto" in archive.options(), "an archive that does not fit is passed over"
    assert "-XX:+RecordDynamicDumpInfo" not in archive.options(), "Java refuses both at once"
    archive.discard()
    assert "-XX:+RecordDynamicDumpInfo" in archive.options()


def test_an_archive_is_made_from_a_running_jvm(tmp_path: Path, jvm: Callable[[Answer], int]) -> None:
    archive = ClassArchive(tmp_path / "archives with blanks", "kafka-1")
    assert archive.make(jvm(dumps))
    assert whole(archive).read_bytes() == b"classes"
    assert list(archive.folder.iterdir()) == [whole(archive)]


def test_an_archive_that_was_cut_off_is_not_used_and_made_again(tmp_path: Path, jvm: Callable[[Answer], int]) -> None:
    archive = ClassArchive(tmp_path / "archives", "kafka-1")
    archive.folder.mkdir()
    (archive.folder / "kafka-1-1000.jsa").write_bytes(b"half")
    assert "-XX:+RecordDynamicDumpInfo" in archive.options()
    assert archive.make(jvm(dumps))
    assert list(archive.folder.iterdir()) == [whole(archive)]


def test_a_jvm_that_refuses_leaves_nothing(tmp_path: Path, jvm: Callable[[Answer], int]) -> None:
    archive = ClassArchive(tmp_path / "archives", "kafka-1")

    def refuses(request: str) -> bytes:
        dumps(request)
        return b"1\nDynamic dump is not possible"

    assert not archive.make(jvm(refuses))
    assert list(archive.folder.iterdir()) == []


def test_a_jvm_that_does_not_listen_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archives, "_attach_folder", lambda: tmp_path)
    assert not ClassArchive(tmp_path / "archives", "kafka-1").make(77)


def test_the_archives_used_last_are_kept(tmp_path: Path, jvm: Callable[[Answer], int]) -> None:
    folder = tmp_path / "archives"
    folder.mkdir()
    old = [folder / f"kafka-{number}-0.jsa" for number in range(ARCHIVES_KEPT + 1)]
    other = folder / "spark-0-0.jsa"
    for age, file in enumerate([*old, other]):
        file.touch()
        os.utime(file, (1000 - age, 1000 - age))
    ClassArchive(folder, f"kafka-{ARCHIVES_KEPT}").options()  # a start uses it
    new = ClassArchive(folder, "kafka-new")
    assert new.make(jvm(dumps))
    assert set(folder.iterdir()) == {whole(new), old[-1], other, *old[: ARCHIVES_KEPT - 2]}


def test_of_two_that_would_make_an_archive_one_goes_without(tmp_path: Path, jvm: Callable[[Answer], int]) -> None:
    archive = ClassArchive(tmp_path / "archives", "kafka-1")
    pid = jvm(dumps)
    archive.folder.mkdir()
    with archive._lock():
        assert not archive.make(pid)
    assert archive.find() is None
    assert archive.make(pid)


def test_drafts_of_jvms_that_are_gone_are_swept(tmp_path: Path, jvm: Callable[[Answer], int]) -> None:
    folder = tmp_path / "archives"
    folder.mkdir()
    abandoned, under_way = folder / "spark-1.999999999.new.temp", folder / f"spark-2.{os.getpid()}.new"
    abandoned.write_bytes(b"")
    under_way.write_bytes(b"")
    assert ClassArchive(folder, "kafka-1").make(jvm(dumps))
    assert not abandoned.exists()
    assert under_way.exists()
