package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// Config configures one partition of a database. URL and Owner are required.
type Config struct {
	URL dsn.URL
	// Schema is the name of the schema that contains the tables. Default "pawl".
	Schema string
	// Part is the number of the partition, from 0 to [Partitions] - 1.
	Part int32
	// Owner is the id of this process as the owner of the partition. No other process may have it.
	// Address is the address at which the owner can be reached.
	Owner, Address string
	// Formats are the storage formats in which this program can keep the partition. Default: all.
	Formats Formats
	// Hot selects the kinds of keys whose pairs are often rewritten and go to a table of their own.
	// Default: none.
	Hot func(kind byte) bool
	// Pool is an existing connection pool, which Close does not close. If it is nil, Open connects to
	// the database itself.
	Pool *Pool
	// RenewedEpoch is set if other code renews the lease. It contains the epoch under which to renew,
	// or zero if the lease must not be renewed. If RenewedEpoch is nil, the owner renews the lease.
	RenewedEpoch *atomic.Uint64
	// Readers is the maximum number of connections for views. Default 16.
	Readers int32
	// Lease is how long the owner keeps the partition after its last commit or renewal. Default 3 s.
	Lease time.Duration
	// Logger receives messages about connections and takeovers. Default: discarded.
	Logger *slog.Logger
	// Unread converts the error of a read that got no answer from the database to an error for clients.
	// Default: the error stays unchanged.
	Unread func(error) error
	// Timeouts limit the waits for the database.
	Timeouts Timeouts
}

// Timeouts limit the waits for the database.
type Timeouts struct {
	// Statement limits the time to wait for the answer to a commit or a takeover. Default 10 s.
	Statement time.Duration
	// Read limits the time of one read, including the wait for a connection. Default 10 s.
	Read time.Duration
	// GracePeriod is how long the database may be unavailable before new work is refused. Default 1 s.
	GracePeriod time.Duration
	// CloseTimeout limits how long a close tries to find out the outcome of a running commit. Default 5
	// s.
	CloseTimeout time.Duration
}

// connecting is the timeout for opening a connection if the URL does not contain a timeout.
const connecting = 5 * time.Second

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// withDefaults returns the configuration with the default for each field that is not set.
func (c Config) withDefaults() Config {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.Lease, 3*time.Second)
	def(&c.Timeouts.Statement, 10*time.Second)
	def(&c.Timeouts.Read, 10*time.Second)
	def(&c.Timeouts.GracePeriod, time.Second)
	def(&c.Timeouts.CloseTimeout, 5*time.Second)
	if c.Schema == "" {
		c.Schema = "pawl"
	}
	c.Formats = c.Formats.withDefaults()
	if c.Readers == 0 {
		c.Readers = 16
	}
	if c.Hot == nil {
		c.Hot = func(byte) bool { return false }
	}
	if c.Unread == nil {
		c.Unread = func(err error) error { return err }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	errs := []error{c.checkAddress()}
	if c.Owner == "" {
		errs = append(errs, errors.New("no owner is named"))
	}
	if c.Part < 0 || c.Part >= Partitions {
		errs = append(errs, fmt.Errorf("partition %d: want 0 to %d", c.Part, Partitions-1))
	}
	return errors.Join(errs...)
}

// checkAddress returns an error if the schema or the URL of the configuration is invalid.
func (c Config) checkAddress() error {
	var errs []error
	if !schemaName.MatchString(c.Schema) {
		errs = append(errs, fmt.Errorf("schema %q: want a-z, 0-9 and _, at most 63, no digit first", c.Schema))
	}
	if fault := c.URL.Fault(); fault != "" || c.URL.IsZero() {
		errs = append(errs, fmt.Errorf("the URL %s", fault))
	}
	return errors.Join(errs...)
}

// sessionSettings are settings for the sessions of this process. With them, the server makes each plan only once.
// The plans use the primary keys, even if the tables were small when the plan was made. The server's
// own timeouts are off.
var sessionSettings = map[string]string{
	"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off", "plan_cache_mode": "force_generic_plan",
	"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
}

// connection returns the configuration of connections to the URL. pooled reports whether a connection pooler is
// between this process and the server, or the URL sets default_query_exec_mode. Otherwise sessionSettings are
// added. A pooler would refuse them, and each transaction may use another session of the server.
func connection(cfg Config) (*pgx.ConnConfig, bool, error) {
	conn, err := pgx.ParseConfig(cfg.URL.Secret())
	if err != nil {
		// The error of the parser may contain the URL, which may contain a password.
		return nil, false, errors.New("one of the parameters of the URL is wrong, or a file that it names cannot be read")
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connecting
	}
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "pawl"
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}}
	conn.DialFunc = dialer.DialContext
	pooled := strings.Contains(cfg.URL.Secret(), "default_query_exec_mode=")
	if !pooled {
		conn.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		if pooled, err = pooler(conn); err != nil {
			return nil, false, err
		}
	}
	if !pooled {
		conn.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
		maps.Copy(conn.RuntimeParams, sessionSettings)
	}
	return conn, pooled, nil
}

// pooler reports whether a connection pooler is between this process and the database server. In this
// case, the process number of the server's session is not the one that the connection received.
func pooler(cfg *pgx.ConnConfig) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), connecting)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false, err
	}
	defer conn.Close(ctx)
	var pid uint32
	err = conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()").Scan(&pid)
	return pid != conn.PgConn().PID(), err
}
