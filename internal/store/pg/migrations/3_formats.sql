-- oldest: 3
-- In which format each partition is kept, and which one each sidecar speaks at most. What is there
-- already is of the one format that there was.
ALTER TABLE {schema}.part ADD COLUMN format integer NOT NULL DEFAULT 2;
ALTER TABLE {schema}.node ADD COLUMN speaks integer NOT NULL DEFAULT 2;

-- The oldest program that works with these tables, by the newest migration that it knows: one row.
CREATE TABLE {schema}.schema_oldest (version bigint NOT NULL);
INSERT INTO {schema}.schema_oldest VALUES (3);
