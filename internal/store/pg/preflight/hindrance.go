package preflight

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// hindranceTimeout limits how long FindHindrance asks, because the caller already waits for the database.
const hindranceTimeout = 3 * time.Second

// hindranceText asks for the sessions that wait for a synchronous standby, and for the oldest transaction that holds a
// lock on a table of the schema. A session keeps waiting for a standby after its client is gone.
const hindranceText = `SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE wait_event = 'SyncRep'),
	current_setting('synchronous_standby_names'),
	(SELECT count(*) FROM pg_catalog.pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND state = 'streaming'),
	h.pid, h.usename, h.application_name, h.state, h.since, h.held
	FROM (SELECT 1) AS one LEFT JOIN (
		SELECT a.pid, coalesce(a.usename, '') AS usename, coalesce(a.application_name, '') AS application_name, coalesce(a.state, '') AS state,
			a.xact_start AS since, n.nspname || '.' || c.relname AS held
		FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
		WHERE l.granted AND n.nspname = $1 AND c.relkind IN ('r', 'p') AND a.pid <> pg_catalog.pg_backend_pid() AND a.backend_type = 'client backend'
			AND a.xact_start < pg_catalog.clock_timestamp() - interval '200 milliseconds'
		ORDER BY a.xact_start, held LIMIT 1) AS h ON true`

// FindHindrance returns why a database that can be reached does not answer in time: its commits wait for a synchronous
// standby, or another session holds a lock on a table of the schema. It returns nil if there is no such reason, or if it
// cannot be found out. url contains the password. where is the same address without the password.
func FindHindrance(ctx context.Context, url, where, schema string) *Error {
	ctx, cancel := context.WithTimeout(ctx, hindranceTimeout)
	defer cancel()
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		return nil
	}
	conf.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil
	}
	defer conn.Close(ctx)
	var waiting, following int
	var standbys string
	var pid *int
	var user, application, state, held *string
	var since *time.Time
	err = conn.QueryRow(ctx, hindranceText, schema).Scan(&waiting, &standbys, &following, &pid, &user, &application, &state, &since, &held)
	switch {
	case err != nil:
		return nil
	case waiting > 0:
		return &Error{Reason: NotFollowed, Where: where, Message: fmt.Sprintf(
			"its commits wait for a synchronous standby: synchronous_standby_names is %q, and %d of these stream now: start the standby, or name another one", standbys, following)}
	case pid != nil:
		return &Error{Reason: Locked, Where: where, Message: fmt.Sprintf(
			"session %d of user %q (application %q, %s, its transaction began at %s) holds a lock on the table %s: end its transaction, or the session with SELECT pg_terminate_backend(%d)",
			*pid, *user, *application, *state, since.UTC().Format(time.RFC3339), *held, *pid)}
	}
	return nil
}
