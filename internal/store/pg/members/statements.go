package members

import "strings"

// A node's own row is not in what the statement reads, which is as of before it. How much is
// left of a lease is told as of the end of the statement: it may have waited for its row. A beat is
// as durable as a commit, whoever says it: who can renew a lease can commit, and who sees that one
// has ended can take it. While a standby that is waited for is away all are blind, and nothing moves.
//
// A lease is left alone while commits renew it, and where its row is locked: by a commit that is
// under way, which renews it itself, or by whoever takes the partition. So no partition holds up the
// leases of the others, and no two beats that come across many rows wait for each other.
//
// The database's clock may be put back: what a lease has more than any lease has is from before
// that. A partition's is cut to a lease from now, whoever it is; a node that does not say anew that
// it lives is none.
//
// A node is new until it has said that it lives for a lease: one that died before never was
// anything else. One whose first word is after its last said the first before the clock was put back.
//
// The first column sets how long a lock is waited for, before any is: a session that waits for a
// standby keeps its locks though nobody hears it any more, and those of further beats would wait
// behind it one by one.
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

// Who places namespaces has the table of them to itself, so that no two who start at once choose the
// same partition. Those that have their place are written anew: an answer that nobody heard, or that
// only one machine stood for, is made good by asking again.
const (
	lockText   = `LOCK TABLE {s}.namespace IN SHARE ROW EXCLUSIVE MODE`
	placedText = `SELECT name, part FROM {s}.namespace`
	// storedText looks up one by one which keys the store of partition 0 has.
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
