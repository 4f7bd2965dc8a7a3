package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/internal/testkit/pg"
	"github.com/pawl-dev/pawl/internal/testkit/relay"
)

// database is a server and its synchronous standby, in two places that stay while their
// servers change.
type database struct {
	t       *testing.T
	places  [2]*pg.Server
	primary int
	// ways are the relays to each place.
	ways [2][]*relay.Relay
}

// waits is what a server waits for once it is the primary: the first standby that it gets.
var waits = map[string]string{"synchronous_standby_names": "standby1"}

func newDatabase(t *testing.T) *database {
	t.Helper()
	d := &database{t: t}
	d.places[0], d.places[1] = pg.StartWithStandby(t, pg.Synchronous, pg.Durable())
	d.places[1].Set(t, waits)
	return d
}

// way is a URL of the store by relays of a node's own.
func (d *database) way(n *node) string {
	d.t.Helper()
	for i, server := range d.places {
		n.database[i] = relay.Start(d.t, server.Addr())
		d.ways[i] = append(d.ways[i], n.database[i])
	}
	return pg.URL("postgres", n.database[0].Addr(), n.database[1].Addr())
}

func (d *database) server() *pg.Server { return d.places[d.primary] }

// failOver kills the primary, has the script promote the standby, and gives that one a standby.
func (d *database) failOver() {
	d.t.Helper()
	old, promoted := d.places[d.primary], d.places[1-d.primary]
	old.Kill(d.t)
	psql, err := pg.Program("psql")
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.Command("../../deploy/postgres/promote", old.URL("postgres"), promoted.URL("postgres"))
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(psql)+":"+os.Getenv("PATH"))
	if said, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("promote: %v\n%s", err, said)
	}
	old.End()
	standby := promoted.AddStandby(d.t, pg.Synchronous, promoted.Addr())
	standby.Set(d.t, waits)
	d.places[d.primary] = standby
	for _, way := range d.ways[d.primary] {
		way.Retarget(standby.Addr())
	}
	d.primary = 1 - d.primary
}
