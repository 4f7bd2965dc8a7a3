package config

import (
	"net"
	"regexp"

	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// schemaName is the allowed form of a schema name: one that needs no quotes, unless it is a keyword of SQL.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// SchemaFault returns the fault of a schema name; "" = it is valid.
func SchemaFault(name string) string {
	if !schemaName.MatchString(name) || len(name) > 2 && name[:3] == "pg_" {
		return "is no name of a schema: want 1 to 63 of a-z, 0-9 and _, no digit first, not pg_..."
	}
	return ""
}

// store checks the settings of the store, which is a directory or a database.
func (c *Config) store(l *list) {
	switch {
	case c.Store.IsZero() && c.Data == "":
		l.add("data", "is required: a directory for the store, or store: the URL of a PostgreSQL database")
	case !c.Store.IsZero() && c.Data != "":
		l.add("store", "and data are set: the store is in a database or in a directory ('pawl migrate --from DIR --to URL' moves it)")
	}
	if dsn.IsURL(c.Data) {
		l.add("data", "is the URL of a database: give it as store")
	}
	if c.Store.IsZero() {
		c.storeless(l)
		return
	}
	if fault := c.Store.Fault(); fault != "" {
		l.add("store", "%s", fault)
	}
	if fault := SchemaFault(c.StoreSchema); fault != "" {
		l.add("store_schema", "%q %s", c.StoreSchema, fault)
	}
	if c.StorePasswordFile != "" && c.Store.HasPassword() {
		l.add("store_password_file", "is set, and store has a password: give one of them")
	}
	if c.EncryptionKeyFile != "" {
		l.add("encryption_key_file", "is of a directory: a database is encrypted by who runs it (its disks, sslmode=verify-full on the way)")
	}
	if c.DataKeyAge != defaultDataKeyAge {
		l.add("data_key_age", "is of an encrypted directory: a database has no data keys of Pawl's")
	}
	c.peers(l)
}

// peers checks the addresses at which this sidecar is reached by the other sidecars that share its database.
func (c *Config) peers(l *list) {
	if c.PeerListen == "" {
		if c.PeerAddress != "" {
			l.add("peer_address", "needs peer_listen: the port that it leads to")
		}
		return
	}
	host, ok := hostPort(l, "peer_listen", c.PeerListen, 0)
	if c.PeerAddress != "" {
		host, ok = hostPort(l, "peer_address", c.PeerAddress, 1)
	}
	if everywhere := net.ParseIP(host); ok && (host == "" || everywhere != nil && everywhere.IsUnspecified()) {
		l.add("peer_address", "is required where peer_listen is every address of the machine: want the HOST:PORT at which the others reach it")
	}
}

// storeless reports settings of a database as faults if no database is configured.
func (c *Config) storeless(l *list) {
	if c.StorePasswordFile != "" {
		l.add("store_password_file", "needs store: the database that it is for")
	}
	if c.StoreSchema != defaultSchema {
		l.add("store_schema", "needs store: the database that has it")
	}
	if c.AcceptLossOnFailover {
		l.add("accept_loss_on_failover", "needs store: a directory loses nothing that it acknowledged")
	}
	if c.RequireSync {
		l.add("require_sync", "needs store: a directory has no standby")
	}
	if c.PeerListen != "" {
		l.add("peer_listen", "needs store: sidecars share a database, not a directory")
	}
	if c.PeerAddress != "" {
		l.add("peer_address", "needs store: sidecars share a database, not a directory")
	}
}
