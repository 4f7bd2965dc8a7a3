package e2e

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// clusterDay is what the incidents of two nodes on a database with a synchronous standby share.
type clusterDay struct {
	primary, standby *pgserver.Server
	url              string
	// second is the other node, and secondAt the address of its metrics.
	second   *sidecar
	secondAt string
	// holder is a session that holds a lock.
	holder *pgx.Conn
}

// beginCluster starts a primary with its standby, two nodes and their Prometheus.
func (d *day) beginCluster() {
	d.t.Helper()
	own := &d.cluster
	own.primary, own.standby = pgserver.StartWithStandby(d.t, pgserver.Synchronous)
	own.url = own.primary.URL("postgres")
	node := func() (*sidecar, string) {
		at := freeAddress(d.t)
		s := newSidecar(d.t, "--metrics", at, "--peer-listen", "127.0.0.1:0", "--pack", "testdata/count.json")
		s.database = own.url
		return s, at
	}
	d.s, d.at = node()
	own.second, own.secondAt = node()
	own.second.dir = d.s.dir // Both serve the same store: its schema is named after the directory.
	d.s.start()
	own.second.start()
	d.p = newPrometheus(d.t, target{address: d.at}, target{address: own.secondAt})
	d.forward()
	d.quiet()
}

// forward calls both nodes, so that the one that does not own the store sends the call to the other.
func (d *day) forward() {
	d.t.Helper()
	for _, s := range []*sidecar{d.s, d.cluster.second} {
		d.p.await("the node answers", func() bool {
			return s.command("runs", "start", "count", "--execution", "CALLER", "--addr", "unix:"+s.socket).Run() == nil
		})
	}
}

// ready waits until both nodes serve again.
func (d *day) ready() {
	d.t.Helper()
	d.p.await("both nodes are ready", func() bool { return d.p.query("sum(pawl_ready)") == 2 && d.p.query("sum(pawl_node_partitions)") == 1 })
	d.forward()
}

// explained checks that the log has the reason why the database did not answer.
func (d *day) explained(reason string) {
	d.t.Helper()
	d.p.await("the log has "+reason, func() bool { return strings.Contains(d.s.stderr.String(), reason) })
}

// incidentsOfACluster are the incidents of nodes that share a store in PostgreSQL.
var incidentsOfACluster = []incident{
	{
		symptom: "The standby of the database is gone, and commits wait for it", alert: "PawlNotReady", log: "database reachable, but does not answer in time",
		command: "pawl health", says: `NOT_SERVING`, fails: true,
		fix:   "Start the standby, or name another one in `synchronous_standby_names`.",
		bring: func(d *day) { d.cluster.standby.Kill(d.t) },
		repair: func(d *day) {
			d.explained("DATABASE_NOT_SYNCHRONOUS")
			d.cluster.standby.Restart(d.t)
			d.ready()
		},
	},
	{
		symptom: "Another session holds a lock on a table of the store", alert: "PawlNotReady", log: "database reachable, but does not answer in time",
		command: "pawl health", says: `NOT_SERVING`, fails: true,
		fix: "End the transaction of the session that the line names: `SELECT pg_terminate_backend(PID)`.",
		bring: func(d *day) {
			holder, err := pgx.Connect(d.ctx, d.cluster.url+"&application_name=editor")
			if err != nil {
				d.t.Fatal(err)
			}
			d.cluster.holder = holder
			if _, err := holder.Exec(d.ctx, "BEGIN; LOCK TABLE "+pgserver.Schema(d.s.dir)+".node"); err != nil {
				d.t.Fatal(err)
			}
		},
		repair: func(d *day) {
			d.explained("DATABASE_LOCKED")
			d.explained("editor")
			if err := d.cluster.holder.Close(context.Background()); err != nil {
				d.t.Error(err)
			}
			d.ready()
		},
	},
	{
		symptom: "The primary of the database is gone", alert: "PawlWithoutOwner", log: "database unreachable, retrying",
		command: "pawl health", says: `NOT_SERVING`, fails: true,
		fix:   "Start it, or promote its standby; `--store` names both.",
		bring: func(d *day) { d.cluster.primary.Kill(d.t) },
		repair: func(d *day) {
			d.cluster.primary.Restart(d.t)
			d.ready()
		},
	},
	{
		symptom: "A node is killed", alert: "PawlDown",
		command: "pawl partitions", says: `\(here\)`,
		fix: "Start it again. Other nodes have its partitions meanwhile.",
		bring: func(d *day) {
			// The command asks the node that is left.
			own := &d.cluster
			d.s, d.at, own.second, own.secondAt = own.second, own.secondAt, d.s, d.at
			own.second.kill()
			d.at, own.secondAt = own.secondAt, d.at
		},
		repair: func(d *day) {
			d.cluster.second.start()
			d.ready()
		},
	},
}
