package pgserver

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// StoreWanted reports whether PAWL_TEST_STORE=postgres asks tests that need any store to have
// it on PostgreSQL, or StandbyWanted.
func StoreWanted() bool { return os.Getenv("PAWL_TEST_STORE") == "postgres" || StandbyWanted() }

// StandbyWanted reports whether PAWL_TEST_STORE=standby asks tests for a sidecar that stands by:
// another one has the store on PostgreSQL.
func StandbyWanted() bool { return os.Getenv("PAWL_TEST_STORE") == "standby" }

// Schema is that of the store which stands for a data directory.
func Schema(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return fmt.Sprintf("t_%x", sha256.Sum256([]byte(dir)))[:34]
}

// InsteadOfDirectory are the arguments of a sidecar, with the store at the URL in a schema of
// its own where they name a data directory.
func InsteadOfDirectory(args []string, url string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		dir, joined := strings.CutPrefix(arg, "--data=")
		upto := i + 1
		switch {
		case joined:
		case arg == "--data" && upto < len(args):
			dir, upto = args[upto], upto+1
		default:
			continue
		}
		flags := []string{"--store", url, "--store-schema", Schema(dir)}
		if args[0] == "serve" {
			flags = append(flags, "--accept-loss-on-failover")
		}
		return slices.Replace(args, i, upto, flags...)
	}
	return args
}

// UseInConfig has the store of a configuration in a schema of its own on the shared server, if
// [StoreWanted], and not in its directory.
func UseInConfig(tb testing.TB, c *config.Config) {
	tb.Helper()
	if !StoreWanted() {
		return
	}
	c.Store, c.StoreSchema, c.AcceptLossOnFailover = dsn.Parse(Shared(tb).URL("postgres")), Schema(c.Data), true
	c.Data = ""
	if StandbyWanted() {
		c.PeerListen = "127.0.0.1:0"
	}
}

// Owner is the configuration of the sidecar that has the store for one which stands by: it is
// reached by peers alone.
func Owner(c config.Config) config.Config {
	if c.HTTP != "" {
		c.HTTP = "127.0.0.1:0"
	}
	c.Listen, c.Socket, c.HTTPHosts, c.HTTPOrigins, c.Metrics, c.Audit, c.AuditKey = "127.0.0.1:0", "", nil, nil, "", "", ""
	return c
}
