package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// hindranceTimeout limits how long FindHindrance looks, because the caller already waits for the database. hindrancePause
// is the time between two looks.
const (
	hindranceTimeout = 3 * time.Second
	hindrancePause   = 250 * time.Millisecond
)

// hindranceText asks for the sessions that have waited for a synchronous standby for a second, and for the oldest
// transaction that has another session wait: it holds a lock on a table of the schema that excludes writers, or a session
// of Pawl waits for it. Of the sessions of other roles, the state and the times are NULL without the right
// pg_read_all_stats. A healthy server always has sessions that wait for a standby for some milliseconds.
const hindranceText = `SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity
		WHERE wait_event = 'SyncRep' AND query_start < pg_catalog.clock_timestamp() - interval '1 second'),
	current_setting('synchronous_standby_names'),
	(SELECT count(*) FROM pg_catalog.pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND state = 'streaming'),
	h.pid, h.usename, h.application_name, h.state, h.since, h.held
	FROM (SELECT 1) AS one LEFT JOIN (
		SELECT a.pid, coalesce(a.usename, '') AS usename, coalesce(a.application_name, '') AS application_name,
			coalesce(a.state, 'in a state that only pg_read_all_stats shows') AS state, a.xact_start AS since, n.nspname || '.' || c.relname AS held
		FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid AND a.datname = pg_catalog.current_database()
		WHERE l.granted AND n.nspname = $1 AND c.relkind IN ('r', 'p') AND a.pid <> pg_catalog.pg_backend_pid()
			AND a.application_name IS DISTINCT FROM $2 AND coalesce(a.backend_type, 'client backend') = 'client backend'
			AND coalesce(a.xact_start < pg_catalog.clock_timestamp() - interval '1 second', true)
			AND (l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') OR a.pid IN (
				SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid)) FROM pg_catalog.pg_stat_activity w
				WHERE w.application_name = $2 AND w.datname = pg_catalog.current_database() AND w.wait_event_type = 'Lock'))
		ORDER BY a.xact_start, held LIMIT 1) AS h ON true`

// IsLate reports whether an error means that the database did not answer in time: a timeout of the caller, which may close
// its connection for it, or one of the database for a lock or a statement.
func IsLate(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Code == "55P03" || answer.Code == "57014"
	}
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed)
}

// FindHindrance returns why a database that can be reached does not answer in time: its commits wait for a synchronous
// standby, or another session holds a lock on a table of the schema for which sessions of Pawl wait. It looks for up to
// three seconds, and returns nil if there is none, or if it cannot be found out. late is the error of the call
// that was not answered ([IsLate]); the result wraps it. url contains the password. where is the same address without the
// password.
func FindHindrance(ctx context.Context, url, where, schema string, late error) *Error {
	ctx, cancel := context.WithTimeout(ctx, hindranceTimeout)
	defer cancel()
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		return nil
	}
	conf.DefaultQueryExecMode = pgx.QueryExecModeExec
	own := conf.RuntimeParams["application_name"]
	if own == "" {
		own = "pawl"
	}
	conf.RuntimeParams["application_name"] = own
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		reason, message := lookForHindrance(ctx, conn, schema, own)
		if reason != "" {
			return &Error{Reason: reason, Where: where, Message: message + " (" + oneLine(late.Error()) + ")", Err: late}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(hindrancePause):
		}
	}
}

// lookForHindrance looks once. It returns "" if it finds nothing.
func lookForHindrance(ctx context.Context, conn *pgx.Conn, schema, own string) (reason Reason, message string) {
	var waiting, following int
	var standbys string
	var pid *int
	var user, application, state, held *string
	var since *time.Time
	err := conn.QueryRow(ctx, hindranceText, schema, own).Scan(&waiting, &standbys, &following, &pid, &user, &application, &state, &since, &held)
	switch {
	case err != nil:
		return "", ""
	case waiting > 0:
		return NotFollowed, fmt.Sprintf(
			"its commits wait for a synchronous standby: synchronous_standby_names is %q, and %d of these stream now: start the standby, or name another one", standbys, following)
	case pid == nil:
		return "", ""
	}
	began := "at a time that only pg_read_all_stats shows"
	if since != nil {
		began = "at " + since.UTC().Format(time.RFC3339)
	}
	return Locked, fmt.Sprintf(
		"session %d of user %q (application %q, %s, its transaction began %s) holds a lock on the table %s: end its transaction, or the session with SELECT pg_terminate_backend(%d)",
		*pid, *user, *application, *state, began, *held, *pid)
}
