package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit"
	"github.com/pawl-dev/pawl/test/testkit/damage"
)

// TestDamagedDirectory flips, clears, cuts and deletes in directories that real processes
// left, killed or stopped, PAWL_DAMAGE times, from 50 on half of them encrypted: each time the start or a check names it, or a
// read does, or it is harmless; nothing is served that was not written, and no store is
// empty.
func TestDamagedDirectory(t *testing.T) {
	t.Parallel()
	trials := 3
	if n, err := strconv.Atoi(os.Getenv("PAWL_DAMAGE")); err == nil {
		trials = n
	}
	random := rand.New(rand.NewPCG(11, uint64(trials)))
	victims := []*victim{newVictim(t)}
	if trials >= 50 {
		victims = append(victims, newVictim(t, "--encryption-key-file", keyFile(t, 32)))
	}
	table, ends := map[string]map[string]int{}, map[string]int{}
	for n := range trials {
		v := victims[n%len(victims)]
		v.restoreCopy(v.copies[random.IntN(len(v.copies))])
		h, err := damage.Choose(v.dir, random, datadir.WrittenBytes)
		if err := errors.Join(err, h.Apply(v.dir)); err != nil {
			t.Fatalf("%v: %v", h, err)
		}
		end := v.classifyDamage(h)
		if table[h.Kind] == nil {
			table[h.Kind] = map[string]int{}
		}
		table[h.Kind][end]++
		ends[end]++
		if t.Failed() {
			return
		}
		if n%100 == 99 {
			t.Logf("damage: %d trials so far, %v", n+1, ends)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(table)) {
		t.Logf("%-12s %v", kind, table[kind])
	}
	testkit.ReportTried(t, trials, fmt.Sprintf("damages: %v", ends))
}

// victim is a sidecar whose directory is hurt again and again, and what was in it.
type victim struct {
	*sidecar

	ctx    context.Context
	copies []string
	runs   map[string]*known
	blobs  map[string][]byte
}

// known is what a run was before any damage.
type known struct {
	records []*pawlv1.Record
	head    *pawlv1.GetRunResponse
}

// newVictim makes a directory in several lives of the process, with tables, value logs,
// blobs, ended and waiting runs, and copies it as it was killed and as it was stopped.
func newVictim(t *testing.T, opening ...string) *victim {
	t.Helper()
	v := &victim{
		sidecar: newSidecar(t, "--pack", "testdata/crash.pack.yaml", "--pack", "testdata/loop.pack.yaml", "--allow-tool", "*"),
		ctx:     t.Context(), runs: map[string]*known{}, blobs: map[string][]byte{},
	}
	v.opening = opening
	for life := range 3 {
		v.start()
		v.live(life)
		if life < 2 {
			v.kill()
		}
	}
	client := v.sidecar.runs()
	for run := range v.runs {
		head, err := client.GetRun(v.ctx, &pawlv1.GetRunRequest{RunId: run, IncludeArtifacts: true})
		if err != nil {
			t.Fatal(err)
		}
		v.runs[run] = &known{records: play.Journal(v.ctx, t, client, run), head: head}
	}
	v.kill()
	v.keep("killed")
	v.start()
	if code := v.stop(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, v.stderr.String())
	}
	v.keep("stopped")
	return v
}

// live fills the store for one life of the process.
func (v *victim) live(life int) {
	v.t.Helper()
	client := v.sidecar.runs()
	for n := range 4 {
		d := &play.Driver{Client: client, Script: 10*life + n, Acked: &atomic.Int64{}, Ledger: map[uint64][]byte{}}
		if err := d.Play(v.ctx); err != nil && !errors.Is(err, play.ErrRunEnded) {
			v.t.Fatal(err)
		}
		v.runs[d.Run] = nil
	}
	large := &largeDriver{client: client, ledger: map[uint64][]byte{}, random: rand.New(rand.NewPCG(uint64(life), 5))}
	started, err := client.StartRun(v.ctx, &pawlv1.StartRunRequest{Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		v.t.Fatal(err)
	}
	large.runID = started.GetRun().GetRunId()
	v.runs[large.runID] = nil
	for n := range 8 {
		if _, err := large.emit(v.ctx, fmt.Sprint(n), large.value()); err != nil {
			v.t.Fatal(err)
		}
		v.putBlob(client, []byte(large.value()))
	}
}

func (v *victim) putBlob(client pawlv1.RunServiceClient, data []byte) {
	v.t.Helper()
	stream, err := client.PutBlob(v.ctx)
	if err != nil {
		v.t.Fatal(err)
	}
	// What is wrong comes with the answer.
	_ = stream.Send(&pawlv1.PutBlobRequest{Data: data, Last: true})
	got, err := stream.CloseAndRecv()
	if err != nil || got.GetBlobRef() == "" {
		v.t.Fatalf("%v, %v", got, err)
	}
	v.blobs[got.GetBlobRef()] = data
}

// keep copies the directory.
func (v *victim) keep(name string) {
	v.t.Helper()
	to := filepath.Join(filepath.Dir(v.dir), name)
	copyTree(v.t, v.dir, to)
	v.copies = append(v.copies, to)
}

// restoreCopy puts a copy into the directory's place.
func (v *victim) restoreCopy(from string) {
	v.t.Helper()
	if err := os.RemoveAll(v.dir); err != nil {
		v.t.Fatal(err)
	}
	copyTree(v.t, from, v.dir)
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-r", "--sparse=auto", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// classifyDamage starts the process on the damaged directory and asks it for everything. It
// returns "refused" by the start, "read" or "check" for who named it else, or "harmless".
func (v *victim) classifyDamage(h damage.FileDamage) string {
	v.t.Helper()
	before := filesOf(v.t, v.dir)
	if _, err := v.tryStart(); err != nil {
		<-v.done
		stderr := v.stderr.String()
		if code := v.cmd.ProcessState.ExitCode(); code != 1 || !named(h, stderr) || strings.Contains(stderr, "goroutine ") {
			v.t.Errorf("%v: exit code %d, not named: %s", h, code, stderr)
		}
		// What is found only when the database is open is found in what it made of the files.
		late := strings.Contains(stderr, "nothing that it holds was changed")
		if after := filesOf(v.t, v.dir); !late && !maps.Equal(before, after) {
			v.t.Errorf("%v: refused, but the directory was changed: %s", h, stderr)
		}
		if _, ok := v.runCheck(h); ok {
			v.t.Errorf("%v: the start refuses, the check does not: %s", h, stderr)
		}
		return "refused"
	}
	named := v.readBack(h)
	if code := v.stop(); code != 0 && !named {
		v.t.Errorf("%v: exit code %d\n%s", h, code, v.stderr.String())
	}
	stderr, ok := v.runCheck(h)
	switch {
	case named && ok:
		v.t.Errorf("%v: a read named it, the check does not: %s", h, stderr)
		return "read"
	case named:
		return "read"
	case !ok:
		return "check"
	default:
		return "harmless"
	}
}

// named reports whether the output of a start or a check names the damage. A key registry with a damaged proof of its key
// cannot be distinguished from the registry of another key.
func named(h damage.FileDamage, said string) bool {
	return strings.Contains(said, "the store is damaged") ||
		h.File == "KEYREGISTRY" && strings.Contains(said, "ENCRYPTION_KEY_WRONG: the encryption key does not open KEYREGISTRY")
}

// runCheck runs the check; ok: in order. What it says otherwise names a fault.
func (v *victim) runCheck(h damage.FileDamage) (output string, ok bool) {
	v.t.Helper()
	output, err := v.checked()
	if err != nil && (!strings.Contains(output, "fault") && !named(h, output) || strings.Contains(output, "goroutine ")) {
		v.t.Errorf("%v: the check ends with %v and names nothing: %s", h, err, output)
	}
	return output, err == nil
}

// readBack compares everything that is served with what was; named: something was refused
// with DATA_LOSS.
func (v *victim) readBack(h damage.FileDamage) (named bool) {
	v.t.Helper()
	client := v.sidecar.runs()
	refused := func(what string, err error) bool {
		if err != nil && status.Code(err) != codes.DataLoss {
			v.t.Errorf("%v: %s: %v", h, what, err)
		}
		named = named || err != nil
		return err != nil
	}
	seen := map[string]bool{}
	list, err := client.ListRuns(v.ctx, &pawlv1.ListRunsRequest{PageSize: 200})
	if !refused("ListRuns", err) {
		for _, r := range list.GetRuns() {
			seen[r.GetRunId()] = true
		}
		if len(seen) != len(v.runs) {
			v.t.Errorf("%v: %d runs are listed instead of %d", h, len(seen), len(v.runs))
		}
	}
	for run, want := range v.runs {
		head, err := client.GetRun(v.ctx, &pawlv1.GetRunRequest{RunId: run, IncludeArtifacts: true})
		if !refused("GetRun "+run, err) && !proto.Equal(head, want.head) {
			v.t.Errorf("%v: run %s is served as %v instead of %v", h, run, head, want.head)
		}
		records, err := page(v.ctx, client, run)
		if !refused("ListTransitions "+run, err) && !slices.EqualFunc(records, want.records, func(a, b *pawlv1.Record) bool { return proto.Equal(a, b) }) {
			v.t.Errorf("%v: run %s has other records", h, run)
		}
	}
	for ref, want := range v.blobs {
		got, err := getBlob(v.ctx, client, ref)
		if !refused("GetBlob "+ref, err) && !bytes.Equal(got, want) {
			v.t.Errorf("%v: blob %s has other bytes", h, ref)
		}
	}
	return named
}

// page reads all records of a run.
func page(ctx context.Context, client pawlv1.RunServiceClient, run string) (all []*pawlv1.Record, err error) {
	req := &pawlv1.ListTransitionsRequest{RunId: run, Kinds: play.EveryKind(), PageSize: 200}
	for {
		got, err := client.ListTransitions(ctx, req)
		if err != nil {
			return nil, err
		}
		all = append(all, got.GetRecords()...)
		if req.PageToken = got.GetNextPageToken(); req.GetPageToken() == "" {
			return all, nil
		}
	}
}

func getBlob(ctx context.Context, client pawlv1.RunServiceClient, ref string) (all []byte, err error) {
	stream, err := client.GetBlob(ctx, &pawlv1.GetBlobRequest{BlobRef: ref})
	for err == nil {
		var piece *pawlv1.GetBlobResponse
		piece, err = stream.Recv()
		all = append(all, piece.GetData()...)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
}

// filesOf is [damage.Digest] of a directory.
func filesOf(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	sums, err := damage.Digest(dir, datadir.WithFile)
	if err != nil {
		t.Fatal(err)
	}
	return sums
}
