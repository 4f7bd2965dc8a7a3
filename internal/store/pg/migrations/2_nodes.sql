-- oldest: 2
-- Sidecars that share the database. One that does not renew its lease is gone.
CREATE TABLE {schema}.node (
    id          text        PRIMARY KEY,
    address     text        NOT NULL,
    key         bytea       NOT NULL,
    leaving     boolean     NOT NULL,
    lease_until timestamptz NOT NULL,
    since       timestamptz NOT NULL
) WITH (fillfactor = 10);
