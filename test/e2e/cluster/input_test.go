package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// accepted has a sidecar serve on a server that may lose what it acknowledges.
const accepted = "--accept-loss-on-failover"

// TestBadInput checks that each mistake with a database or a cluster is refused, or reported by its name
// in one line without the password, by real processes on real servers.
// docs/operations/postgresql-cluster.md lists the mistakes.
func TestBadInput(t *testing.T) {
	pgserver.Require(t)
	for name, test := range map[string]func(*testing.T){
		"a schema of something else":    badSchema,
		"a newer schema":                newerSchema,
		"no fsync":                      noFsync,
		"a lagging standby":             laggingStandby,
		"two clusters on one schema":    twoClusters,
		"no connection left at a start": noPlaceAtStart,
		"no connection left meanwhile":  noPlace,
		"a full disk":                   fullDisk,
		"a clock off by an hour":        clockOff,
		"alone on a store of several":   aloneOnShares,
		"a node with fewer namespaces":  fewerSpaces,
	} {
		t.Run(name, test)
	}
}

// refused runs a sidecar that must not serve, alone and as one of several.
func refused(t *testing.T, url string, says []string, args ...string) {
	t.Helper()
	for _, several := range [][]string{nil, {"--peer-listen", "127.0.0.1:0"}} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		all := append(append([]string{"serve", "--listen", "127.0.0.1:0", "--store", url}, args...), several...)
		out, err := exec.CommandContext(ctx, binary(t), all...).CombinedOutput()
		cancel()
		output := string(out)
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 {
			t.Errorf("%v: %v", several, err)
		}
		for _, want := range says {
			if !strings.Contains(output, want) {
				t.Errorf("%v: %q is not said: %s", several, want, output)
			}
		}
		if strings.Contains(output, pgserver.Password) {
			t.Errorf("%v: the password is told: %s", several, output)
		}
	}
}

// startNode is a node that serves alone.
func startNode(t *testing.T, url string, args ...string) *node {
	t.Helper()
	n := newNode(t, "alone", append([]string{"--pack", "testdata/ping.pack.json", "--store", url}, args...)...)
	n.start()
	return n
}

// ended ends a node in order; its log has no password, and these words.
func (n *node) ended(says ...string) {
	n.t.Helper()
	n.end(syscall.SIGTERM)
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		n.t.Errorf("exit code %d after SIGTERM", code)
	}
	n.silent()
	for _, want := range says {
		if !strings.Contains(n.outputTail(), want) {
			n.t.Errorf("%q is not said: %s", want, n.outputTail())
		}
	}
}

func badSchema(t *testing.T) {
	refused(t, pgserver.Start(t).URL("postgres"), []string{"SCHEMA_OF_SOMETHING_ELSE", "--store-schema"}, accepted, "--store-schema", "information_schema")
}

func newerSchema(t *testing.T) {
	server := pgserver.Start(t)
	startNode(t, server.URL("postgres"), accepted).ended()
	server.Query(t, "postgres", "INSERT INTO pawl.schema_version (version_id, is_applied) VALUES (99, true); UPDATE pawl.schema_oldest SET version = 98")
	refused(t, server.URL("postgres"), []string{"SCHEMA_NEWER: ", "has version 99", "know version 98"}, accepted)
	server.Query(t, "postgres", "DELETE FROM pawl.schema_version WHERE version_id = 99; UPDATE pawl.schema_oldest SET version = 4; UPDATE pawl.part SET format = 9")
	out, err := exec.CommandContext(t.Context(), binary(t), "serve", "--listen", "127.0.0.1:0", accepted, "--store", server.URL("postgres")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "FORMAT_NEWER: ") || !strings.Contains(string(out), "part.format of schema") {
		t.Errorf("a newer format: %v: %s", err, out)
	}
}

func noFsync(t *testing.T) {
	server := pgserver.Start(t)
	refused(t, server.URL("postgres"), []string{"DATABASE_LOSES_COMMITS: ", "fsync is off", accepted})
	refused(t, server.URL("postgres"), []string{"DATABASE_NOT_SYNCHRONOUS: ", "fsync is off"}, accepted, "--require-sync")
	startNode(t, server.URL("postgres"), accepted).ended("accepted by --accept-loss-on-failover: fsync is off")
}

func laggingStandby(t *testing.T) {
	primary, standby := pgserver.StartWithStandby(t, pgserver.Asynchronous, pgserver.Durable())
	url := primary.URL("postgres")
	standby.Pause(t)
	defer standby.Resume(t)
	refused(t, url, []string{"DATABASE_LOSES_COMMITS: ", "synchronous_standby_names is empty", accepted})
	refused(t, url, []string{"DATABASE_NOT_SYNCHRONOUS: ", "synchronous_standby_names is empty", "--require-sync"}, accepted, "--require-sync")
	n := startNode(t, url, accepted)
	n.run("lagging")
	n.ended("accepted by --accept-loss-on-failover: synchronous_standby_names is empty")
}

// twoClusters checks that all nodes that share a schema are one cluster, even if this was not intended. If
// their addresses do not lead to each other, a partition still has one owner. The other node reports this,
// and its callers get this error and no other answer.
func twoClusters(t *testing.T) {
	server := pgserver.Start(t)
	one := newNode(t, "one", "--pack", "testdata/ping.pack.json", accepted, "--store", server.URL("postgres"), "--peer-listen", "127.0.0.1:0", "--peer-address", "127.0.0.1:1")
	one.start()
	other := newNode(t, "other", accepted, "--store", server.URL("postgres"), "--peer-listen", "127.0.0.1:0")
	other.start()
	id := one.run("first")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := pawlv1.NewRunServiceClient(other.dial()).EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: id, Event: "Next", EventId: "elsewhere"})
	if play.Reason(err) != "NO_OWNER" || status.Code(err) != codes.Unavailable {
		t.Errorf("a call at the other: %v", err)
	}
	if one.emit(id, "here") != "pong" {
		t.Error("what was refused took effect")
	}
	other.ended("peer unreachable", "127.0.0.1:1", "--peer-address")
	one.ended()
}

// clockOff: the clock by which one sidecar stamps runs is an hour ahead of the database's and of the
// other's. It says so, and each takes over from the other as ever.
func clockOff(t *testing.T) {
	// Both places that ask what time it is; intervals are measured by the monotonic clock.
	const clock, compared = "internal/runtime/engine.go", "internal/store/pg/preflight/server.go"
	ahead := buildPatched(t, map[string]string{
		clock:    changed(t, "../../../"+clock, "return time.Now() }", "return time.Now().Add(time.Hour) }"),
		compared: strings.Replace(changed(t, "../../../"+compared, "began := time.Now()", "began := time.Now().Add(time.Hour)"), "end := time.Now()", "end := time.Now().Add(time.Hour)", 1),
	})
	server := pgserver.Start(t)
	var nodes []*node
	for _, program := range []string{ahead, ""} {
		n := newNode(t, fmt.Sprint("of ", program), "--pack", "testdata/ping.pack.json", accepted, "--store", server.URL("postgres"))
		n.program = program
		n.joinCluster()
		n.start()
		nodes = append(nodes, n)
	}
	id := nodes[1].run("first")
	for i, want := range []string{"pong", "ping", "pong"} {
		victim, other := nodes[i%2], nodes[(i+1)%2]
		victim.end(syscall.SIGKILL)
		began := time.Now()
		if got := other.emit(id, fmt.Sprint("event ", i)); got != want {
			t.Errorf("event %d led to %s", i, got)
		}
		t.Logf("%d: taken over after %v", i, time.Since(began).Round(time.Millisecond))
		victim.start()
	}
	nodes[1].ended()
	nodes[0].ended("the clock of the database is 1h0m0s behind that of this machine")
}

// newPlainRole returns a database role without superuser rights, whose connections are counted.
func newPlainRole(t *testing.T) (server *pgserver.Server, url string) {
	t.Helper()
	server = pgserver.Start(t)
	server.Query(t, "postgres", "CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE postgres TO plain")
	return server, strings.Replace(server.URL("postgres"), "pawl:", "plain:", 1)
}

func noPlaceAtStart(t *testing.T) {
	server, url := newPlainRole(t)
	server.Query(t, "postgres", "ALTER ROLE plain CONNECTION LIMIT 0")
	refused(t, url, []string{"DATABASE_CONNECTIONS: ", "too many connections for role", "max_connections"}, accepted)
}

func noPlace(t *testing.T) {
	server, url := newPlainRole(t)
	n := startNode(t, url, accepted)
	id := n.run("first")
	server.Query(t, "postgres", "ALTER ROLE plain CONNECTION LIMIT 0; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'plain'")
	n.fillUntilRefused("DATABASE_AWAY")
	server.Query(t, "postgres", "ALTER ROLE plain CONNECTION LIMIT -1")
	if n.emit(id, "afterwards") != "pong" {
		t.Error("something took effect that was not asked for")
	}
	n.ended()
}

// fullDisk: the tables lie on a disk of their own, which is filled, and then is not.
func fullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m,mode=0777", "tmpfs", dir).Run(); err != nil {
		t.Skip("nothing can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	checkOpens(t, dir)
	tables := filepath.Join(dir, "tables")
	server := pgserver.Start(t)
	server.Query(t, "postgres", "COPY (SELECT 1) TO PROGRAM 'mkdir -m 700 "+tables+"'")
	server.Query(t, "postgres", "CREATE TABLESPACE small LOCATION '"+tables+"'")
	server.Query(t, "postgres", "CREATE DATABASE small TABLESPACE small")
	n := startNode(t, server.URL("small"), accepted)
	id := n.run("first")
	fill := filepath.Join(dir, "fill")
	file, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = file.Write(make([]byte, 1<<20))
	}
	for err = nil; err == nil; {
		_, err = file.Write(make([]byte, 1<<10))
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	n.fillUntilRefused("DISK_LOW")
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if n.emit(id, "afterwards") != "pong" {
		t.Error("something took effect that was not asked for")
	}
	n.ended()
	out, err := exec.CommandContext(t.Context(), binary(t), "check", "--store", server.URL("small")).CombinedOutput()
	if err != nil {
		t.Errorf("pawl check: %v: %s", err, out)
	}
}

// checkOpens lets every user pass to a directory of the test.
func checkOpens(t *testing.T, dir string) {
	t.Helper()
	for at := filepath.Dir(dir); strings.HasPrefix(at, os.TempDir()+"/"); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// run begins one.
func (n *node) run(id string) string {
	n.t.Helper()
	started, err := play.Retry(n.t.Context(), func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
		return pawlv1.NewRunServiceClient(n.dial()).StartRun(ctx, &pawlv1.StartRunRequest{Pack: "ping", RequestId: id, Execution: pawlv1.Execution_EXECUTION_CALLER})
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return started.GetRun().GetRunId()
}

// emit moves a run, however often it has to ask, and says where it is then.
func (n *node) emit(run, id string) string {
	n.t.Helper()
	runs := pawlv1.NewRunServiceClient(n.dial())
	for {
		got, err := play.Retry(n.t.Context(), func(ctx context.Context) (*pawlv1.EmitEventResponse, error) {
			return runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: run, Event: "Next", EventId: id})
		})
		if play.Reason(err) == "DISK_LOW" {
			continue
		}
		if err != nil {
			n.t.Error(err)
		}
		return got.GetState()
	}
}

// fillUntilRefused begins runs with so much in them that there must be room for it, until the node refuses
// one by that reason.
func (n *node) fillUntilRefused(reason string) {
	n.t.Helper()
	runs := pawlv1.NewRunServiceClient(n.dial())
	labels := map[string]string{"filler": strings.Repeat("x", 60)}
	for i, end := 0, time.Now().Add(patience); time.Now().Before(end); i++ {
		ctx, cancel := context.WithTimeout(n.t.Context(), 2*time.Second)
		_, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{
			Pack: "ping", RequestId: fmt.Sprint("filler ", i), Execution: pawlv1.Execution_EXECUTION_CALLER, Labels: labels,
		})
		cancel()
		if play.Reason(err) == reason {
			return
		}
		if code := status.Code(err); err != nil && code != codes.DeadlineExceeded && code != codes.Unavailable {
			n.t.Fatalf("run %d: %v", i, err)
		}
	}
	n.t.Errorf("nothing is refused with %s", reason)
}
