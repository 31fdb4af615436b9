CREATE TABLE IF NOT EXISTS objects (
    resource  TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    uid       TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    body      BLOB    NOT NULL,
    PRIMARY KEY (resource, namespace, name)
);
CREATE UNIQUE INDEX IF NOT EXISTS objects_by_uid ON objects (uid);
CREATE INDEX IF NOT EXISTS objects_by_namespace ON objects (namespace, resource);

CREATE TABLE IF NOT EXISTS owners (
    owner     TEXT NOT NULL,
    dependent TEXT NOT NULL,
    PRIMARY KEY (owner, dependent)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS owners_by_dependent ON owners (dependent);

CREATE TABLE IF NOT EXISTS counter (
    only    INTEGER PRIMARY KEY CHECK (only = 1),
    version INTEGER NOT NULL
);
INSERT OR IGNORE INTO counter VALUES (1, 1);
