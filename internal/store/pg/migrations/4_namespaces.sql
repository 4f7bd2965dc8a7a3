-- oldest: 4
-- In which partition each namespace is, for ever, and which partitions each sidecar would take: bit
-- p for partition p. Older programs know partition 0 alone, and would have every namespace in it.
CREATE TABLE {schema}.namespace (
    name text    PRIMARY KEY,
    part integer NOT NULL
);
ALTER TABLE {schema}.node ADD COLUMN parts bigint NOT NULL DEFAULT 1;
