package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/relay"
)

// database is a server and its synchronous standby, in two places that stay while their
// servers change.
type database struct {
	t       *testing.T
	places  [2]*pgserver.Server
	primary int
	// placeRelays are the relays to each place.
	placeRelays [2][]*relay.Relay
	// pulseRelays are those of who watches whether it commits.
	pulseRelays [2]*relay.Relay
}

// waits is what a server waits for once it is the primary: the first standby that it gets.
var waits = map[string]string{"synchronous_standby_names": "standby1"}

func newDatabase(t *testing.T) *database {
	t.Helper()
	d := &database{t: t}
	d.places[0], d.places[1] = pgserver.StartWithStandby(t, pgserver.Synchronous, pgserver.Durable())
	d.places[1].Set(t, waits)
	return d
}

// urlThrough returns a URL of the store through the caller's own relays.
func (d *database) urlThrough(own *[2]*relay.Relay) string {
	d.t.Helper()
	for i, server := range d.places {
		own[i] = relay.Start(d.t, server.Addr())
		d.placeRelays[i] = append(d.placeRelays[i], own[i])
	}
	return pgserver.URL("postgres", own[0].Addr(), own[1].Addr())
}

func (d *database) server() *pgserver.Server  { return d.places[d.primary] }
func (d *database) standby() *pgserver.Server { return d.places[1-d.primary] }

// setSlow has each sync of the primary wait for a tenth of a second more, with what it keeps others
// from meanwhile, as on a slow disk.
func (d *database) setSlow(is bool) {
	d.t.Helper()
	settings := map[string]string{"commit_delay": "0", "commit_siblings": "5"}
	if is {
		settings = map[string]string{"commit_delay": "100000", "commit_siblings": "0"}
	}
	d.server().Set(d.t, settings)
}

// shiftClock sets the clock of the database, as it looks from all that it has stored.
func (d *database) shiftClock(by time.Duration) {
	d.t.Helper()
	shift := fmt.Sprintf("lease_until - interval '%d s'", int(by.Seconds()))
	d.server().Query(d.t, "postgres", "UPDATE pawl.node SET lease_until = "+shift+"; UPDATE pawl.part SET lease_until = "+shift)
}

// failOver kills the primary, has the script promote the standby, and gives that one a standby.
func (d *database) failOver() {
	d.t.Helper()
	old, promoted := d.places[d.primary], d.places[1-d.primary]
	old.Kill(d.t)
	psql, err := pgserver.Program("psql")
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.Command("../../../deploy/postgres/promote", old.URL("postgres"), promoted.URL("postgres"))
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(psql)+":"+os.Getenv("PATH"))
	if said, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("promote: %v\n%s", err, said)
	}
	old.End()
	standby := promoted.AddStandby(d.t, pgserver.Synchronous, promoted.Addr())
	standby.Set(d.t, waits)
	d.places[d.primary] = standby
	for _, way := range d.placeRelays[d.primary] {
		way.Retarget(standby.Addr())
	}
	d.primary = 1 - d.primary
}
