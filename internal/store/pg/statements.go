package pg

import (
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// statements contains the texts of the SQL statements for one schema.
type statements struct {
	// commit and commitOverwrite are the statements that store a commit group, by the kinds of changes in it (see
	// [group.changeKinds]). The statements in commitOverwrite can also overwrite rows of the cold table.
	commit, commitOverwrite                          [1 << sorts]string
	renew, release                                   string
	acquire, readState, terminateBlocker, clampLease string
	readOwner                                        string
	// version reads the number of the newest migration. oldest reads the oldest migration that a
	// program must know in order to use the schema.
	version, oldest string
	// keysRead, keysSize, keysWrite and keysVacuum are the statements for the keys of erasable runs.
	keysRead, keysSize, keysWrite, keysVacuum string
	// get and has are indexed by table: 0 is the hot table, whose rows are often rewritten, and 1 is
	// the cold table.
	get, has [2]string
}

// A commit is one statement. Its first part, the fence, compares the owner, the epoch and the last
// commit group. If they do not match, the statement changes no row. The epoch alone is not enough:
// after a failover that lost a takeover, another owner may have the same epoch. The statement itself
// turns on warnings, because the session's earlier settings are unknown.
const (
	fenceText = `WITH fence AS (
	UPDATE {s}.part SET commit_no = $4, lease_until = clock_timestamp() + $5 * interval '1 microsecond'
	WHERE id = $1 AND owner = $2 AND epoch = $3 AND commit_no = $4 - 1 RETURNING id
)`
	fencedText = `
SELECT pg_catalog.set_config('client_min_messages', 'warning', true) FROM fence`
)

// These are the kinds of changes in a commit group: set or removed rows, in the hot or the cold table.
// sorts is their number. The commit statement has one part for each kind. Parts without changes are
// left out, because even an empty part costs as much as a row.
const (
	hotSet = iota
	coldSet
	hotGone
	coldGone
	sorts
)

// partTexts are the parts of the commit statement. Each removed row is looked up separately. For a
// whole list of keys, the server could use a plan that reads the whole table, if the table was small
// when the plan was made.
var partTexts = [sorts]string{
	hotSet: `, hot AS (
	INSERT INTO {s}.hot (part, k, v, g) SELECT fence.id, u.k, u.v, $4 FROM fence, unnest($6::bytea[], $7::bytea[]) AS u (k, v)` + overText + `
)`,
	coldSet: `, cold AS (
	INSERT INTO {s}.cold (part, k, v, g) SELECT fence.id, u.k, u.v, $4 FROM fence, unnest($8::bytea[], $9::bytea[]) AS u (k, v){over}
)`,
	hotGone: `, unhot AS (
	DELETE FROM {s}.hot WHERE ctid = ANY (ARRAY(
		SELECT (SELECT gone.ctid FROM {s}.hot AS gone WHERE gone.part = fence.id AND gone.k = u.k) FROM fence, unnest($10::bytea[]) AS u (k)))
)`,
	coldGone: `, uncold AS (
	DELETE FROM {s}.cold WHERE ctid = ANY (ARRAY(
		SELECT (SELECT gone.ctid FROM {s}.cold AS gone WHERE gone.part = fence.id AND gone.k = u.k) FROM fence, unnest($11::bytea[]) AS u (k)))
)`,
}

// overText makes an insert overwrite an existing row. The first attempt of a commit leaves it out for
// the cold table. Rows there almost never exist already, and the check takes a third of the time of the
// insert.
const overText = `
	ON CONFLICT (part, k) DO UPDATE SET v = excluded.v, g = excluded.g`

// commitText returns the commit statement for a commit group. has selects the parts of the statement.
// over is added to the insert into the cold table.
func commitText(has int, over string) string {
	parts := []string{fenceText}
	for sort, part := range partTexts {
		if has&(1<<sort) != 0 {
			parts = append(parts, strings.ReplaceAll(part, "{over}", over))
		}
	}
	return strings.Join(append(parts, fencedText), "")
}

const renewText = `WITH fence AS (
	UPDATE {s}.part SET lease_until = clock_timestamp() + $5 * interval '1 microsecond'
	WHERE id = $1 AND owner = $2 AND epoch = $3 AND commit_no = $4 RETURNING id
)
SELECT pg_catalog.set_config('client_min_messages', 'warning', true) FROM fence`

const releaseText = `UPDATE {s}.part SET lease_until = '-infinity', owner = '', address = '' WHERE id = $1 AND owner = $2 AND epoch = $3`

// acquireText takes over a partition. In the same statement it may change the format of the partition
// to the newest one that all running nodes support, except those that are leaving. From then on, no
// program without this format can take over the partition.
const acquireText = `UPDATE {s}.part SET epoch = epoch + 1, owner = $2, address = $3, backend_pid = pg_catalog.pg_backend_pid(),
	lease_until = clock_timestamp() + $4 * interval '1 microsecond',
	format = CASE WHEN $8::bool THEN greatest(format, least($7::integer, (
		SELECT min(n.speaks) FROM {s}.node n WHERE NOT n.leaving AND n.lease_until > now() AND n.lease_until <= now() + $4 * interval '2 microseconds'))) ELSE format END
	WHERE id = $1 AND format BETWEEN $6::integer AND $7::integer AND (owner = $2 OR (NOT $5::bool AND lease_until <= now()))`

// clampLeaseText shortens a lease that is longer than the maximum. The lease was written before the
// database's clock was set back.
const clampLeaseText = `UPDATE {s}.part SET lease_until = clock_timestamp() + $2 * interval '1 microsecond'
	WHERE id = $1 AND lease_until > clock_timestamp() + $2 * interval '2 microseconds'`

const readStateText = `SELECT epoch, commit_no, owner, address, (extract(epoch FROM greatest(lease_until, 'epoch')) * 1000000)::bigint,
	greatest(0, (extract(epoch FROM greatest(lease_until, 'epoch') - clock_timestamp()) * 1000000)::bigint), format
	FROM {s}.part WHERE id = $1`

// terminateBlockerText ends the session that has locked the partition's row, if the caller owns the partition
// or the lease has ended. This session is found by the row's xmax, the transaction that is writing the row.
const terminateBlockerText = `SELECT pg_catalog.pg_terminate_backend(l.pid) FROM {s}.part p
	JOIN pg_catalog.pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = p.xmax AND l.granted
	WHERE p.id = $1 AND (p.owner = $2 OR p.lease_until <= clock_timestamp())`

const versionText = `SELECT coalesce(max(version_id), 0) FROM {s}.schema_version WHERE is_applied`

const oldestText = `SELECT max(version) FROM {s}.schema_oldest`

const readOwnerText = `SELECT owner, commit_no FROM {s}.part WHERE id = $1`

// keysWriteText writes whole pages of run keys. It writes a page only if the page has not changed since
// it was read, so a write that arrives late, after another write, has no effect.
const keysWriteText = `WITH fence AS (
	SELECT id FROM {s}.part WHERE id = $1 AND owner = $2 FOR UPDATE
), made AS (
	INSERT INTO {s}.run_keys (part, page, bytes) SELECT fence.id, u.page, u.bytes FROM fence, unnest($3::bigint[], $4::bytea[]) AS u (page, bytes)
	ON CONFLICT DO NOTHING RETURNING page
), changed AS (
	UPDATE {s}.run_keys r SET bytes = u.bytes FROM fence, unnest($5::bigint[], $6::bytea[], $7::bytea[]) AS u (page, old, bytes)
	WHERE r.part = fence.id AND r.page = u.page AND r.bytes = u.old RETURNING r.page
)
SELECT (SELECT count(*) FROM made) + (SELECT count(*) FROM changed), pg_catalog.set_config('client_min_messages', 'warning', true)`

const keysReadText = `SELECT page, bytes FROM {s}.run_keys WHERE part = $1 AND page BETWEEN $2 AND $3 ORDER BY page`

const keysSizeText = `SELECT page, octet_length(bytes) FROM {s}.run_keys WHERE part = $1 ORDER BY page DESC LIMIT 1`

// statementsOf returns the texts of the statements for a schema.
func statementsOf(schema string) statements {
	in := func(text string) string { return strings.ReplaceAll(text, "{s}", schema) }
	texts := statements{
		renew: in(renewText), release: in(releaseText),
		clampLease: in(clampLeaseText), acquire: in(acquireText), readState: in(readStateText), terminateBlocker: in(terminateBlockerText), readOwner: in(readOwnerText), version: in(versionText), oldest: in(oldestText),
		keysRead: in(keysReadText), keysSize: in(keysSizeText), keysWrite: in(keysWriteText), keysVacuum: in("VACUUM {s}.run_keys"),
	}
	for has := range texts.commit {
		texts.commit[has], texts.commitOverwrite[has] = in(commitText(has, "")), in(commitText(has, overText))
	}
	for side, table := range tableNames {
		texts.get[side] = in("SELECT v FROM {s}." + table + " WHERE part = $1 AND k = $2")
		texts.has[side] = in("SELECT 1 FROM {s}." + table + " WHERE part = $1 AND k = $2")
	}
	return texts
}

// fenceTypes are the types of the parameters of a lease renewal. commitTypes are those of a commit.
var (
	fenceTypes  = []uint32{pgtype.Int4OID, pgtype.TextOID, pgtype.Int8OID, pgtype.Int8OID, pgtype.Int8OID}
	commitTypes = append(fenceTypes[:5:5], pgtype.ByteaArrayOID, pgtype.ByteaArrayOID, pgtype.ByteaArrayOID, pgtype.ByteaArrayOID, pgtype.ByteaArrayOID, pgtype.ByteaArrayOID)
)
