package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit/child"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// buildPatched builds the program under test with other files: each is the path of one, in this module or
// absolute, and what is there instead.
func buildPatched(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, replaced := t.TempDir(), map[string]string{}
	for path, text := range files {
		if !filepath.IsAbs(path) {
			path = filepath.Join("../../..", path)
		}
		from, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		replaced[from] = filepath.Join(dir, fmt.Sprint(len(replaced), "-", filepath.Base(path)))
		if err := os.WriteFile(replaced[from], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	overlay, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sidecar")
	if err := os.WriteFile(overlay, index, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", bin, "../../../cmd/sidecar").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// changed is a file with one text for another.
func changed(t *testing.T, path, from, to string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), from) != 1 {
		t.Fatalf("%s does not have %q once", path, from)
	}
	return strings.Replace(string(text), from, to, 1)
}

// successor builds the version after the program under test, of the same sources with what such a
// version may have: a newer format of the store, and a migration that only adds.
func successor(t *testing.T) string {
	t.Helper()
	const format = "internal/store/layout/format.go"
	return buildPatched(t, map[string]string{
		format: changed(t, filepath.Join("../../..", format), "\tFormat = 2\n", "\tFormat = 3\n"),
		"internal/store/pg/migrations/5_later.sql": `-- oldest: 4
ALTER TABLE {schema}.part ADD COLUMN later text NOT NULL DEFAULT 'x';
ALTER TABLE {schema}.node ADD COLUMN later text NOT NULL DEFAULT 'x';
CREATE TABLE {schema}.later (id bigint PRIMARY KEY);`,
	})
}

// TestUpgrade replaces three sidecars that share three namespaces by the next version, one after the
// other with SIGTERM. Meanwhile callers at the others make changes, and a reader reads everything. No
// call fails, nothing is lost, and every partition is in the newer format when all nodes support it. A
// node of the old version then stands by, even if all others end, and without other nodes it is
// refused.
func TestUpgrade(t *testing.T) {
	c := newCluster(t, 3, 3)
	next := successor(t)
	all := c.follow()
	for i, n := range c.nodes {
		if formats := c.formats(); formats != "[2]" {
			t.Errorf("with %d of the old version the partitions are in the formats %s", 3-i, formats)
		}
		longest := c.exchanged(n, next)
		t.Logf("%s is of the next version; a caller stood still for at most %v", n.name, longest)
	}
	c.db.server().Await(t, "postgres", "SELECT bool_and(format = 3 AND lease_until > now()) FROM pawl.part")
	older := c.nodes[1]
	c.exchanged(older, "")
	for _, want := range []string{"FORMAT_NEWER", "part.format is 3", "node.speaks is 2", "never takes the store"} {
		if !strings.Contains(older.outputTail(), want) {
			t.Errorf("a sidecar of the old version does not say %q", want)
		}
	}
	c.calledAt(older)
	c.orphaned(older)
	for _, n := range c.nodesExcept(older) {
		n.start()
	}
	for _, f := range all {
		f.awaitEnds()
	}
	c.refusedAlone(next)
}

// follower reads everything of a namespace, at a node by chance each time that its stream ends.
type follower struct {
	c     *cluster
	space string
	runs  pawlv1.RunServiceClient

	mu      sync.Mutex
	seqs    map[string]uint64
	cursor  string
	streams atomic.Int64
}

// follow reads everything of each namespace.
func (c *cluster) follow() (all []*follower) {
	c.t.Helper()
	for _, space := range c.spaces {
		f := &follower{c: c, space: space, runs: pawlv1.NewRunServiceClient(namespaceConn{c.newSpread(), space}), seqs: map[string]uint64{}}
		all = append(all, f)
		go f.readAll()
	}
	return all
}

func (f *follower) readAll() {
	for f.c.ctx.Err() == nil {
		f.streams.Add(1)
		stream, err := f.runs.StreamTransitions(f.c.ctx, &pawlv1.StreamTransitionsRequest{Follow: true, AfterCursor: f.cursor, Kinds: play.EveryKind()})
		for err == nil {
			var got *pawlv1.StreamTransitionsResponse
			if got, err = stream.Recv(); err == nil {
				f.take(got)
			}
		}
		f.c.keepFault(20 * time.Millisecond)
	}
}

// take: each record comes once, and those of a run in their order.
func (f *follower) take(got *pawlv1.StreamTransitionsResponse) {
	if beat := got.GetHeartbeat(); beat != nil {
		f.cursor = beat.GetCursor()
	}
	record := got.GetRecord()
	if record == nil {
		return
	}
	f.cursor = record.GetCursor()
	f.mu.Lock()
	defer f.mu.Unlock()
	if want := f.seqs[record.GetRunId()] + 1; record.GetSeq() != want {
		f.c.t.Errorf("the reader of everything in %s saw record %d of run %s instead of %d", f.space, record.GetSeq(), record.GetRunId(), want)
	}
	f.seqs[record.GetRunId()] = record.GetSeq()
}

func (f *follower) seq(run string) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seqs[run]
}

// awaitEnds waits until it has seen the end of every run that there is.
func (f *follower) awaitEnds() {
	t, ctx, records := f.c.t, f.c.ctx, uint64(0)
	t.Helper()
	listed, err := f.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{PageSize: 200})
	if err != nil || len(listed.GetRuns()) < 16 {
		t.Fatalf("%d runs in %s, %v", len(listed.GetRuns()), f.space, err)
	}
	for _, run := range listed.GetRuns() {
		got, err := f.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run.GetRunId()})
		if err != nil {
			t.Fatal(err)
		}
		for f.seq(run.GetRunId()) < got.GetRun().GetSeq() && ctx.Err() == nil && !t.Failed() {
			f.c.keepFault(time.Millisecond)
		}
		records += got.GetRun().GetSeq()
	}
	t.Logf("%s: %d runs, %d records read in order over %d streams", f.space, len(listed.GetRuns()), records, f.streams.Load())
}

// formats are those that partitions are in.
func (c *cluster) formats() string {
	c.t.Helper()
	return c.db.server().Query(c.t, "postgres", "SELECT json_agg(DISTINCT format) FROM pawl.part")
}

// exchanged ends a node and starts another program in its place, while there are callers at the others.
func (c *cluster) exchanged(n *node, program string) time.Duration {
	c.t.Helper()
	c.exchanges++
	all := c.calling(fmt.Sprint("for ", c.exchanges, " "), 2, c.nodesExcept(n)...)
	all.awaitCalls()
	n.end(syscall.SIGTERM)
	all.awaitCalls()
	n.program = program
	n.start()
	all.awaitCalls()
	all.end()
	return all.longestGap(allNamespaces)
}

// calledAt makes a run in each namespace through one node.
func (c *cluster) calledAt(n *node) {
	c.t.Helper()
	for _, space := range c.spaces {
		runs := pawlv1.NewRunServiceClient(namespaceConn{n.dial(), space})
		_, err := runs.StartRun(c.ctx, &pawlv1.StartRunRequest{Pack: "ping", RequestId: "through " + n.name, Execution: pawlv1.Execution_EXECUTION_CALLER})
		if err != nil {
			c.t.Fatalf("StartRun in %s at %s: %v", space, n.name, err)
		}
	}
}

// orphaned ends all nodes but one, which lives on and takes no partition.
func (c *cluster) orphaned(left *node) {
	c.t.Helper()
	for _, n := range c.nodesExcept(left) {
		n.end(syscall.SIGTERM)
	}
	server := c.db.server()
	lives := "SELECT max(lease_until) FROM pawl.node WHERE address = '" + left.peers.Addr() + "'"
	from := server.Query(c.t, "postgres", lives)
	server.Await(c.t, "postgres", "SELECT ("+lives+") > '"+from+"'::timestamptz + interval '5 s'")
	if had := server.Query(c.t, "postgres", "SELECT count(*) FROM pawl.part WHERE owner <> ''"); had != "0" {
		c.t.Errorf("%s partitions are had: %s", had, c.shares())
	}
}

// refusedAlone ends all, and looks at the store by both programs.
func (c *cluster) refusedAlone(next string) {
	c.t.Helper()
	for _, n := range c.nodes {
		n.end(syscall.SIGTERM)
		if code := n.cmd.ProcessState.ExitCode(); code != 0 {
			c.t.Errorf("node %s: exit code %d after SIGTERM", n.name, code)
		}
	}
	url := c.db.server().URL("postgres")
	out, err := exec.Command(next, "check", "--store", url).CombinedOutput()
	c.t.Logf("pawl check: %s", strings.TrimSpace(string(out)))
	if err != nil {
		c.t.Errorf("pawl check by the next version: %v", err)
	}
	for _, args := range [][]string{{"check", "--store", url}, {"serve", "--listen", "127.0.0.1:0", "--store", url}} {
		out, err := exec.Command(binary(c.t), args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "FORMAT_NEWER: ") || !strings.Contains(string(out), "is 3, this program speaks 2 to 2") {
			c.t.Errorf("sidecar %s by the old version: %v: %s", args[0], err, out)
		}
	}
}

// TestUpgradeOfAnOlderBuild is a rolling upgrade from a real older program: that before the last change of what a store
// has, or of the commit PAWL_OLDER. All nodes are replaced by this program, one goes back and forth, as
// docs/operations/upgrades.md allows, and no call of callers at the other nodes fails. Readers of everything see each record once.
func TestUpgradeOfAnOlderBuild(t *testing.T) {
	pgserver.Require(t)
	commit, err := child.OlderCommit()
	if errors.Is(err, child.ErrNoHistory) {
		t.Skipf("NOT RUN: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	older, err := child.BuildAt(commit, "cmd/sidecar")
	if err != nil {
		t.Fatal(err)
	}
	c := newClusterOf(t, older, 3, 3)
	all := c.follow()
	for _, step := range []struct {
		n       *node
		program string
	}{{c.nodes[0], ""}, {c.nodes[0], older}, {c.nodes[1], ""}, {c.nodes[2], ""}, {c.nodes[0], ""}} {
		longest := c.exchanged(step.n, step.program)
		t.Logf("%s is of %s; a caller stood still for at most %v", step.n.name, cmp.Or(step.program, "this version"), longest)
	}
	for _, f := range all {
		f.awaitEnds()
	}
	t.Logf("from %s", commit)
	c.stopped()
}
