-- oldest: 1
-- What is in the partitions of a database, and who owns each.
CREATE TABLE {schema}.part (
    id          integer     PRIMARY KEY,
    epoch       bigint      NOT NULL DEFAULT 0,
    owner       text        NOT NULL DEFAULT '',
    address     text        NOT NULL DEFAULT '',
    backend_pid integer     NOT NULL DEFAULT 0,
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    commit_no   bigint      NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

-- Pairs that are rewritten.
CREATE TABLE {schema}.hot (
    part integer NOT NULL,
    k    bytea   NOT NULL,
    v    bytea   NOT NULL,
    g    bigint  NOT NULL,
    PRIMARY KEY (part, k)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Pairs that are written once.
CREATE TABLE {schema}.cold (
    part integer NOT NULL,
    k    bytea   NOT NULL,
    v    bytea   NOT NULL,
    g    bigint  NOT NULL,
    PRIMARY KEY (part, k)
);

-- Keys of runs that can be erased: a file in pages, written over in their place.
CREATE TABLE {schema}.run_keys (
    part  integer NOT NULL,
    page  bigint  NOT NULL,
    bytes bytea   NOT NULL,
    PRIMARY KEY (part, page)
) WITH (fillfactor = 50);
