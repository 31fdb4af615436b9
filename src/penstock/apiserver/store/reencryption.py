"""Encrypts every stored Secret with the current key, and finds out whether the given keys fit."""

from __future__ import annotations

import contextlib
from pathlib import Path

from penstock.apiserver.store import statements
from penstock.apiserver.store.encryption import SEALED_RESOURCES, Seals
from penstock.apiserver.store.storage import open_database


def reencrypt(path: Path, seals: Seals) -> int:
    """Writes the records again that are not as they would be written now; how many. No object changes.

    Raises WrongKey, and then nothing is written. A server may run meanwhile, if it knows the keys.
    """
    if not path.exists():
        return 0
    count = 0
    with contextlib.closing(open_database(path)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'objects'").fetchone():
            return 0
        database.execute("BEGIN IMMEDIATE")
        try:
            for resource in SEALED_RESOURCES:
                for namespace, name, record in database.execute(statements.LIST_ALL, (resource, "", "", -1)).fetchall():
                    body = seals.open(resource, namespace, name, record)
                    if not seals.is_current(record):
                        sealed = seals.seal(resource, namespace, name, body)
                        database.execute(statements.REWRITE, (sealed, resource, namespace, name))
                        count += 1
            database.execute("COMMIT")
        finally:
            if database.in_transaction:
                database.execute("ROLLBACK")
        if count:
            # Pages that held them before are given back whole, and so is the log of changes.
            database.execute("VACUUM")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return count
