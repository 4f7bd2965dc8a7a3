package members

import "strings"

// heartbeatText is the statement of a heartbeat. It records that the node is alive, renews the leases of its
// partitions, and returns the live nodes and the partitions with their owners. A node that owns partitions also
// deletes the rows of nodes whose lease ended more than a minute ago. It reads the rows as they were before the
// statement, and adds the node's own new row to the answer. The remaining time of a lease is computed at the
// end, because the statement may have waited for a row.
//
// A heartbeat is as durable as a commit. A session that can renew a lease can commit, and a session
// that sees the end of a lease can take over. While a required standby is unavailable, no session can
// do either, and no partition moves.
//
// A heartbeat does not renew a lease that commits renew. It also skips a partition whose row is locked
// by a running commit, which renews the lease itself, or by a takeover. So no partition delays the
// leases of the others, and two heartbeats over many rows never wait for each other.
//
// The database's clock may be set back. A lease that is longer than the maximum was written before
// that. For a partition, it is cut to the maximum from now. A node with a lease that is too long counts
// as dead until its next heartbeat.
//
// A node is new until it has sent heartbeats for the length of a lease. If its first heartbeat seems
// later than its last, the clock was set back after the first, and the node counts as new.
//
// The first column limits the wait for locks, before any lock is taken. A session that waits for a
// standby keeps its locks even after its client is gone, and later heartbeats would wait behind it.
const heartbeatText = `WITH clock AS MATERIALIZED (
	SELECT pg_catalog.set_config('lock_timeout', $10::text, true), pg_catalog.clock_timestamp() AS now, $9::bigint * interval '1 microsecond' AS lease
), me AS (
	INSERT INTO {s}.node (id, address, key, leaving, speaks, parts, lease_until, since)
	SELECT $1::text, $2::text, $3::bytea, $4::bool, $5::integer, $6::bigint, now + lease, now FROM clock
	ON CONFLICT (id) DO UPDATE SET address = excluded.address, key = excluded.key, leaving = excluded.leaving, speaks = excluded.speaks, parts = excluded.parts,
		lease_until = excluded.lease_until
	RETURNING id, address, key, leaving, speaks, parts, since, lease_until
), due AS MATERIALIZED (
	SELECT p.id FROM {s}.part p, clock
	WHERE p.lease_until > now + lease * 2 OR split_part(p.owner, '.', 1) = $1 AND p.lease_until < now + lease * 5 / 6
		AND (p.id, p.epoch) IN (SELECT * FROM unnest($7::integer[], $8::bigint[]))
	FOR NO KEY UPDATE OF p SKIP LOCKED
), kept AS (
	UPDATE {s}.part p SET lease_until = pg_catalog.clock_timestamp() + lease FROM due, clock
	WHERE p.id = due.id
	RETURNING p.id, p.owner, p.address, p.lease_until, p.format
), gone AS (
	DELETE FROM {s}.node WHERE cardinality($7::integer[]) > 0 AND id IN (
		SELECT n.id FROM {s}.node n, clock WHERE n.lease_until < now - interval '1 minute' AND n.id <> $1 FOR UPDATE OF n SKIP LOCKED)
), had AS (
	SELECT p.id AS part, split_part(coalesce(k.owner, p.owner), '.', 1) AS id, coalesce(k.address, p.address) AS address, coalesce(k.format, p.format) AS format, p.commit_no > 0 AS made,
		(extract(epoch FROM greatest(coalesce(k.lease_until, p.lease_until), 'epoch') - pg_catalog.clock_timestamp()) * 1000000)::bigint AS lease
	FROM {s}.part p LEFT JOIN kept k ON k.id = p.id
), living AS (
	SELECT * FROM me
	UNION ALL SELECT id, address, key, leaving, speaks, parts, since, lease_until FROM {s}.node, clock WHERE lease_until > now AND lease_until < now + lease * 2 AND id <> $1
)
SELECT 0 AS sort, 0 AS part, id, address, key, leaving, speaks, parts, since, lease_until - since >= clock.lease AND lease_until - since < clock.lease * 2 AS new, 0::bigint AS lease, 0 AS format, false AS made,
	pg_catalog.set_config('client_min_messages', 'warning', true)
FROM living, clock
UNION ALL
SELECT 1, h.part, h.id, coalesce(n.address, h.address), n.key, coalesce(n.leaving, false), coalesce(n.speaks, 0), coalesce(n.parts, 0), n.since,
	coalesce(n.lease_until - n.since >= clock.lease AND n.lease_until - n.since < clock.lease * 2, false), h.lease, h.format, h.made, NULL
FROM clock, had h LEFT JOIN (SELECT * FROM me UNION ALL SELECT id, address, key, leaving, speaks, parts, since, lease_until FROM {s}.node WHERE id <> $1) n ON n.id = h.id
ORDER BY sort, part, since, id`

const deregisterText = `DELETE FROM {s}.node WHERE id = $1`

// A placement of namespaces locks the table of namespaces, so that two nodes that start at the same
// time do not choose the same partition. A placement also writes the rows of namespaces that already
// have a partition. So a repeated call repairs a placement whose answer was lost, or that only one
// machine had confirmed.
const (
	lockText   = `LOCK TABLE {s}.namespace IN SHARE ROW EXCLUSIVE MODE`
	placedText = `SELECT name, part FROM {s}.namespace`
	// storedText returns those of the given names whose keys are in the store of partition 0. It looks
	// up each key separately.
	storedText = `SELECT u.name FROM unnest($1::text[], $2::bytea[]) AS u (name, k)
	WHERE coalesce((SELECT true FROM {s}.hot h WHERE h.part = 0 AND h.k = u.k), (SELECT true FROM {s}.cold c WHERE c.part = 0 AND c.k = u.k), false)`
	placeText = `INSERT INTO {s}.namespace (name, part) SELECT * FROM unnest($1::text[], $2::integer[])
	ON CONFLICT (name) DO UPDATE SET part = namespace.part`
)

type statements struct{ heartbeat, deregister, lock, placed, stored, place, seed string }

func statementsOf(schema string) statements {
	in := func(text string) string { return strings.ReplaceAll(text, "{s}", schema) }
	return statements{
		heartbeat: in(heartbeatText), deregister: in(deregisterText), lock: in(lockText), placed: in(placedText), stored: in(storedText), place: in(placeText),
	}
}
