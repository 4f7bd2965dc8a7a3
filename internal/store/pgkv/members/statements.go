package members

import "strings"

// A node's own row is not in what the statement reads, which is as of before it. How much is
// left of a lease is told as of the end of the statement: it may have waited for a commit. The
// lease is left alone while commits renew it: their row would be waited for. A beat is as durable
// as a commit, whoever says it: who can renew a lease can commit, and who sees that one has ended
// can take it. While a standby that is waited for is away all are blind, and nothing moves.
//
// The database's clock may be put back: what a lease has more than any lease has is from before
// that. The store's is cut to a lease from now, whoever it is; a node that does not say anew that
// it lives is none.
//
// The first column sets how long a lock is waited for, before any is: a session that waits for a
// standby keeps its locks though nobody hears it any more, and those of further beats would wait
// behind it one by one.
const beatText = `WITH clock AS MATERIALIZED (
	SELECT pg_catalog.set_config('lock_timeout', $7::text, true), pg_catalog.clock_timestamp() AS now, $6::bigint * interval '1 microsecond' AS lease
), me AS (
	INSERT INTO {s}.node (id, address, key, leaving, speaks, lease_until, since)
	SELECT $1::text, $2::text, $3::bytea, $4::bool, $8::integer, now + lease, now FROM clock
	ON CONFLICT (id) DO UPDATE SET address = excluded.address, key = excluded.key, leaving = excluded.leaving, speaks = excluded.speaks, lease_until = excluded.lease_until
	RETURNING id, address, key, leaving, speaks, since
), kept AS (
	UPDATE {s}.part SET lease_until = pg_catalog.clock_timestamp() + lease FROM clock
	WHERE part.id = 0 AND (lease_until > now + lease * 2 OR split_part(owner, '.', 1) = $1 AND epoch = $5::bigint AND lease_until < now + lease * 5 / 6)
	RETURNING owner, address, lease_until
), gone AS (
	DELETE FROM {s}.node WHERE $5::bigint > 0 AND id IN (
		SELECT n.id FROM {s}.node n, clock WHERE n.lease_until < now - interval '1 minute' AND n.id <> $1 FOR UPDATE OF n SKIP LOCKED)
), had AS (
	SELECT split_part(coalesce(k.owner, p.owner), '.', 1) AS id, coalesce(k.address, p.address) AS address, coalesce(k.lease_until, p.lease_until) AS lease_until, p.format
	FROM {s}.part p LEFT JOIN kept k ON true WHERE p.id = 0
), living AS (
	SELECT * FROM me
	UNION ALL SELECT id, address, key, leaving, speaks, since FROM {s}.node, clock WHERE lease_until > now AND lease_until < now + lease * 2 AND id <> $1
)
SELECT 0 AS sort, id, address, key, leaving, speaks, since, 0::bigint AS lease, coalesce((SELECT format FROM {s}.part WHERE part.id = 0), 0) AS format,
	pg_catalog.set_config('client_min_messages', 'warning', true)
FROM living
UNION ALL
SELECT 1, h.id, coalesce(n.address, h.address), n.key, coalesce(n.leaving, false), coalesce(n.speaks, 0), n.since,
	(extract(epoch FROM h.lease_until - pg_catalog.clock_timestamp()) * 1000000)::bigint, h.format, NULL
FROM had h LEFT JOIN (SELECT * FROM me UNION ALL SELECT id, address, key, leaving, speaks, since FROM {s}.node WHERE id <> $1) n ON n.id = h.id
WHERE h.lease_until > pg_catalog.clock_timestamp()
ORDER BY sort, since, id`

const leaveText = `DELETE FROM {s}.node WHERE id = $1`

type statements struct{ beat, leave string }

func statementsOf(schema string) statements {
	in := func(text string) string { return strings.ReplaceAll(text, "{s}", schema) }
	return statements{beat: in(beatText), leave: in(leaveText)}
}
