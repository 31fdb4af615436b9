"""The SQLite database of the store: its connections and its SQL. The tables are in `tables.sql`."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def open_database(path: Path) -> sqlite3.Connection:
    """A connection for one thread at a time."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")  # removed and replaced records do not stay readable on disk
    return connection


GET = "SELECT body FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
BY_UID = "SELECT resource, namespace, name, body FROM objects WHERE uid = ?"

LIST_ALL = """
SELECT namespace, name, body FROM objects
WHERE resource = ? AND (namespace, name) > (?, ?)
ORDER BY namespace, name LIMIT ?
"""
LIST_NAMESPACE = """
SELECT namespace, name, body FROM objects
WHERE resource = ? AND namespace = ? AND name > ?
ORDER BY name LIMIT ?
"""
COUNT_ALL = "SELECT count(*) FROM objects WHERE resource = ? AND (namespace, name) > (?, ?)"
COUNT_NAMESPACE = "SELECT count(*) FROM objects WHERE resource = ? AND namespace = ? AND name > ?"

KEYS_OF_NAMESPACE = """
SELECT resource, name FROM objects
WHERE namespace = ? AND (resource, name) > (?, ?)
ORDER BY resource, name LIMIT ?
"""
ANY_IN_NAMESPACE = "SELECT 1 FROM objects WHERE namespace = ? LIMIT 1"
KEYS_OF_RESOURCE = "SELECT namespace, name FROM objects WHERE resource = ? ORDER BY namespace, name"
ANY_OF_RESOURCE = "SELECT 1 FROM objects WHERE resource = ? LIMIT 1"

PUT = """
INSERT INTO objects (resource, namespace, name, uid, version, body) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (resource, namespace, name) DO UPDATE SET version = excluded.version, body = excluded.body
"""
REWRITE = "UPDATE objects SET body = ? WHERE resource = ? AND namespace = ? AND name = ?"
REMOVE = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"

REMOVE_OWNERS = "DELETE FROM owners WHERE dependent = ?"
ADD_OWNER = "INSERT OR IGNORE INTO owners (owner, dependent) VALUES (?, ?)"
DEPENDENTS = "SELECT dependent FROM owners WHERE owner = ? ORDER BY dependent"

VERSION = "SELECT version FROM counter"
SET_VERSION = "UPDATE counter SET version = ?"
