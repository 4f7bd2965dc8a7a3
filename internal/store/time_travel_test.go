package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/runfile"
)

// travelWorld has a registered pack with a run that goes on, a run that has ended, and a fork.
func travelWorld(t testing.TB) *world {
	t.Helper()
	w := newWorld(t, openTemp(t))
	row, err := w.store.PutPack(context.Background(), 0, putOf("codegen", "1.0.0", true))
	if err != nil {
		t.Fatal(err)
	}
	w.graph.Digest = row.Digest
	w.live(runID(1))
	w.live(runID(2))
	w.end(runID(2))
	w.runs[runID(3)] = nil
	w.do(runID(3), machine.Fork{
		RunID: runID(3), Execution: machine.Workers, Variables: []byte(`{}`), Seq: w.runs[runID(1)].Seq, From: w.runs[runID(1)],
		Values:        []machine.ArtifactWrite{{Name: "plan", Value: []byte(`{"steps":3}`)}, {Name: "report", Value: []byte("3 passed\nnoted")}},
		Conversations: []machine.ConversationCopy{{State: "plan", Messages: []machine.Message{{Role: "user", Parts: []machine.Part{{Kind: machine.PartText, Text: "please"}}}}}},
		Queued:        []machine.QueuedInput{{Parts: []machine.Part{{Kind: machine.PartText, Text: "hurry"}}, MessageID: "m"}},
		ReuseSteps:    true, Steps: []machine.TakenStep{{Step: 1, Payload: []byte(`{"all":true}`), Result: []byte(`"3 passed"`)}},
	})
	return w
}

func (w *world) prove(run string) machine.Proof {
	w.t.Helper()
	proof, err := w.store.Prove(context.Background(), 0, run, w.graph)
	if err != nil {
		w.t.Fatal(err)
	}
	return proof
}

// entriesOf returns the stored entries of a run in the order of their keys.
func entriesOf(t testing.TB, s *Store, run string) (ops []layout.Op) {
	t.Helper()
	err := s.view(func(txn *layout.Txn) error {
		c := &check.Checker{Ended: context.Background().Err, Txn: txn}
		return c.Each(layout.RunKey(nil, layout.KindEntry, 0, run), func(key, value []byte) error {
			ops = append(ops, layout.Op{Key: key, Value: value})
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

// TestProveNamesTheFirstBadRecord: the proofs of unchanged runs succeed. The proof of a run fails if any byte
// of an entry is changed, if an entry is missing, and if an entry was replaced by another one with a matching
// chain.
func TestProveNamesTheFirstBadRecord(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	w.check()
	run := runID(1)
	proof := w.prove(run)
	if !proof.OK() || proof.Records != int64(w.runs[run].Seq) || proof.Hash != w.runs[run].PrevHash {
		t.Fatalf("proof is %+v", proof)
	}
	for n := 2; n <= 3; n++ {
		if proof := w.prove(runID(n)); !proof.OK() {
			t.Fatalf("run %d: %+v", n, proof)
		}
	}
	if _, err := w.store.Prove(context.Background(), 0, "ghost", w.graph); !errors.Is(err, machine.ErrNoRun) {
		t.Fatalf("of no run: %v", err)
	}
	entries := entriesOf(t, w.store, run)
	for i, op := range entries {
		first := uint64(1)
		if e, err := codec.DecodeEntry(run, bytes.Clone(op.Value)); err == nil {
			first = e.First
		}
		for at := 9; at < len(op.Value); at += 1 + len(op.Value)/23 { // after the format and the cursor
			bad := bytes.Clone(op.Value)
			bad[at] ^= 0x10
			raw(t, w.store, layout.Op{Key: op.Key, Value: bad})
			if proof := w.prove(run); proof.OK() || proof.BadSeq != first {
				t.Fatalf("entry %d, byte %d: %+v, want record %d", i, at, proof, first)
			}
		}
		raw(t, w.store, layout.Op{Key: op.Key, Delete: true})
		if proof := w.prove(run); proof.BadSeq != first {
			t.Fatalf("entry %d is gone: %+v, want record %d", i, proof, first)
		}
		raw(t, w.store, op)
	}
	forgeLastEntry(t, w, run, entries)
	if proof := w.prove(run); !proof.OK() {
		t.Fatalf("put back: %+v", proof)
	}
}

// forgeLastEntry replaces the last entry by one that has another record and a matching chain.
func forgeLastEntry(t *testing.T, w *world, run string, entries []layout.Op) {
	t.Helper()
	last := entries[len(entries)-1]
	e, err := codec.DecodeEntry(run, bytes.Clone(last.Value))
	if err != nil {
		t.Fatal(err)
	}
	e.Records[0].Principal = "mallory"
	value, _, err := codec.EncodeEntry(e.PrevHash, e.First, &e.Input, e.Records)
	if err != nil {
		t.Fatal(err)
	}
	raw(t, w.store, layout.Op{Key: last.Key, Value: value})
	if proof := w.prove(run); proof.BadSeq != e.First || !strings.Contains(proof.Detail, "Principal") {
		t.Fatalf("forged: %+v", proof)
	}
	raw(t, w.store, last)
}

// TestProveAllNamesEachRun: a damaged run is reported, and all other runs are proven.
func TestProveAllNamesEachRun(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	raw(t, w.store, layout.Op{Key: layout.HeadKey(0, runID(2)), Value: []byte("damaged")})
	var bad []string
	count := 0
	err := w.store.ProveAll(context.Background(), "", w.graphs, func(_ uint32, run string, p machine.Proof) error {
		if count++; !p.OK() {
			bad = append(bad, fmt.Sprintf("%s:%d", run, p.BadSeq))
		}
		return nil
	})
	if err != nil || count != 3 || !slices.Equal(bad, []string{runID(2) + ":1"}) {
		t.Fatalf("%d runs, bad are %v, %v", count, bad, err)
	}
	err = w.store.ProveAll(context.Background(), "ghost", w.graphs, func(uint32, string, machine.Proof) error { return nil })
	if !errors.Is(err, machine.ErrNoRun) {
		t.Fatalf("of no run: %v", err)
	}
}

func (w *world) export(run string) []byte {
	w.t.Helper()
	var out bytes.Buffer
	if err := w.store.Export(context.Background(), 0, run, &out); err != nil {
		w.t.Fatal(err)
	}
	return out.Bytes()
}

// importInto unpacks and imports a file.
func (w *world) importInto(s *Store, ns uint32, file []byte) (*machine.State, bool, error) {
	x, err := check.Unpack(bytes.NewReader(file))
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if err := check.Discard(x); err != nil {
			w.t.Error(err)
		}
	}()
	put := putOf("codegen", "1.0.0", true)
	return s.Import(context.Background(), ns, x, put.Row, w.graph, testTime)
}

// TestImportedRunIsReadAndNeverDriven: all reads of an imported run return the same as in its first store. No
// row exists that would drive the run.
func TestImportedRunIsReadAndNeverDriven(t *testing.T) {
	t.Parallel()
	w, ctx := travelWorld(t), context.Background()
	blob, _ := putBlob(t, w.store, "u1", testTime, "large")
	w.do(runID(1), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: fmt.Appendf(nil, "blob:sha256:%x", blob.SHA256)}}})
	for _, ns := range []uint32{0, 7} {
		s := openTemp(t)
		for n := 1; n <= 3; n++ {
			st, duplicate, err := w.importInto(s, ns, w.export(runID(n)))
			if err != nil || duplicate || !st.Imported || st.Namespace != ns || st.PrevHash != w.runs[runID(n)].PrevHash {
				t.Fatalf("imported %+v, %v, %v", st, duplicate, err)
			}
		}
		if _, duplicate, err := w.importInto(s, ns, w.export(runID(1))); err != nil || !duplicate {
			t.Fatalf("again: %v, %v", duplicate, err)
		}
		if report, err := s.Check(ctx, w.graphs); err != nil || report.Runs != 3 || report.Timers+report.Outbox+report.Ready != 0 {
			t.Fatalf("check: %+v, %v", report, err)
		}
		if proof, err := s.Prove(ctx, ns, runID(1), w.graph); err != nil || !proof.OK() {
			t.Fatalf("proof: %+v, %v", proof, err)
		}
		for _, row := range rows(t, s) {
			if bytes.IndexByte([]byte{layout.KindCursor, layout.KindTimer, layout.KindOutbox, layout.KindReady, layout.KindRunID, layout.KindCallerID, layout.KindImport, layout.KindPackName, layout.KindPackBare, layout.KindUpload}, row.Key[0]) >= 0 {
				t.Errorf("row %q", row.Key)
			}
		}
		readsAlike(t, w, s, ns)
		if _, err := s.Blob(ctx, ns, blob.SHA256); err != nil {
			t.Fatalf("blob: %v", err)
		}
		if live, _ := s.CountRuns(ctx, ns, []machine.Status{machine.Running, machine.Waiting}); live != 0 {
			t.Fatalf("%d runs are said to go on", live)
		}
	}
}

func readsAlike(t *testing.T, w *world, s *Store, ns uint32) {
	t.Helper()
	ctx, run := context.Background(), runID(1)
	want, err := w.store.Entries(ctx, 0, run, 1, machine.Page{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Entries(ctx, ns, run, 1, machine.Page{})
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d entries, %v; want %d", len(got), err, len(want))
	}
	for i := range got {
		if got[i].Hash != want[i].Hash || !rules.EqualRecords(got[i].Records[0], want[i].Records[0]) {
			t.Fatalf("entry %d is %+v, was %+v", i, got[i], want[i])
		}
	}
	versions, err := s.ArtifactVersions(ctx, ns, run, "report", 1<<40, false)
	if err != nil || len(versions) != 3 {
		t.Fatalf("versions %v, %v", versions, err)
	}
	rows, err := s.MessageRows(ctx, ns, run, "plan", 0, 9)
	if err != nil || len(rows) != 2 {
		t.Fatalf("messages %v, %v", rows, err)
	}
}

// TestImportIsRefusedWhole: the import of a run that exists, or of a file that was edited, is refused and
// stores nothing.
func TestImportIsRefusedWhole(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	before := rows(t, w.store)
	_, _, err := w.importInto(w.store, 0, w.export(runID(1)))
	wantRefusal(t, err, "RUN_EXISTS")
	if after := rows(t, w.store); len(after) != len(before) {
		t.Fatalf("%d rows, were %d", len(after), len(before))
	}
	s := openTemp(t)
	empty := len(rows(t, s))
	file := w.export(runID(1))
	for n := range 6 { // for each entry, a file that was sealed again after the change
		edited, seq := reseal(t, file, n)
		_, _, err := w.importInto(s, 0, edited)
		if refusal := wantRefusal(t, err, "EXPORT_INVALID"); refusal.Seq != seq {
			t.Fatalf("entry %d: %v names record %d, want %d", n, err, refusal.Seq, seq)
		}
	}
	if after := rows(t, s); len(after) != empty {
		t.Fatalf("%d rows, were %d", len(after), empty)
	}
}

// reseal changes one byte of the n-th entry and adds a valid seal.
func reseal(t *testing.T, file []byte, n int) (edited []byte, seq uint64) {
	t.Helper()
	r, err := runfile.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := runfile.NewWriter(&out, r.Header())
	if err != nil {
		t.Fatal(err)
	}
	for entry := 0; ; {
		kind, body, err := r.Next()
		if err != nil {
			break
		}
		if kind == runfile.KindEntry {
			if entry == n {
				e, err := codec.DecodeEntry("", bytes.Clone(body))
				if err != nil {
					t.Fatal(err)
				}
				seq = e.First
				body[len(body)-3] ^= 1
			}
			entry++
		}
		if err := w.Frame(kind, body); err != nil {
			t.Fatal(err)
		}
	}
	if seq == 0 {
		t.Fatalf("the file has no entry %d", n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), seq
}

func wantRefusal(t *testing.T, err error, reason string) *machine.Error {
	t.Helper()
	refusal, ok := errors.AsType[*machine.Error](err)
	if !ok || refusal.Reason != reason {
		t.Fatalf("error is %v, want %s", err, reason)
	}
	return refusal
}

// TestUnpackRefusesEveryDamage: Unpack refuses a file with a changed byte, a file that was cut, and a file
// with additional bytes.
func TestUnpackRefusesEveryDamage(t *testing.T) {
	t.Parallel()
	file := travelWorld(t).export(runID(1))
	for at := 0; at < len(file); at += 3 {
		bad := bytes.Clone(file)
		bad[at] ^= 0x40
		x, err := check.Unpack(bytes.NewReader(bad))
		if refusal, ok := errors.AsType[*machine.Error](err); !ok || !strings.HasPrefix(refusal.Reason, "EXPORT_") {
			t.Fatalf("byte %d: %v", at, err)
		}
		if _, err := os.Stat(x.Spool); x.Spool == "" || !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("byte %d: %q is left, %v", at, x.Spool, err)
		}
		_, err = check.Unpack(bytes.NewReader(file[:at]))
		wantRefusal(t, err, "EXPORT_TRUNCATED")
	}
	for _, kind := range []runfile.Kind{runfile.KindHeader, runfile.KindPack} {
		_, err := check.Unpack(bytes.NewReader(withFrame(file, kind)))
		wantRefusal(t, err, "EXPORT_INVALID")
	}
	_, err := check.Unpack(bytes.NewReader(append(bytes.Clone(file), 'x')))
	wantRefusal(t, err, "EXPORT_INVALID")
	newer := bytes.Clone(file)
	newer[9]++
	_, err = check.Unpack(bytes.NewReader(newer))
	if refusal := wantRefusal(t, err, "EXPORT_NEWER"); refusal.Code != machine.CodeFailedPrecondition {
		t.Fatalf("newer: %v", err)
	}
}

// withFrame returns a file of a run with an empty frame before its seal, and with the seal that this file must have.
func withFrame(file []byte, kind runfile.Kind) []byte {
	out := append(bytes.Clone(file[:len(file)-5-sha256.Size]), byte(kind), 0, 0, 0, 0)
	sum := sha256.Sum256(out)
	return append(append(out, byte(runfile.KindSeal), 0, 0, 0, sha256.Size), sum[:]...)
}

// TestUnfinishedImportIsRemoved: the next start removes the rows of an unfinished import. The file can be
// imported afterwards.
func TestUnfinishedImportIsRemoved(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	w.do(runID(1), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("blob:sha256:" + strings.Repeat("ab", 32))}}})
	file, dir := w.export(runID(1)), t.TempDir()
	s := openTemp(t, func(o *Options) { o.Dir = dir })
	var left []layout.Op
	for _, op := range rows(t, w.store) {
		switch op.Key[0] {
		case layout.KindEntry, layout.KindArtifact, layout.KindMessage, layout.KindSnapshot, layout.KindBlobRef:
			if bytes.Contains(op.Key, []byte(runID(1))) {
				left = append(left, op)
			}
		}
	}
	if !slices.ContainsFunc(left, func(op layout.Op) bool { return op.Key[0] == layout.KindBlobRef }) {
		t.Fatal("the run refers to no blob")
	}
	raw(t, s, append(left, layout.Op{Key: layout.RunKey(nil, layout.KindImport, 0, runID(1)), Value: codec.Mark})...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTemp(t, func(o *Options) { o.Dir = dir })
	if report, err := s.Check(context.Background(), w.graphs); err != nil || report.Entries != 0 {
		t.Fatalf("check: %+v, %v", report, err)
	}
	for _, op := range rows(t, s) {
		if bytes.Contains(op.Key, []byte(runID(1))) {
			t.Errorf("the row %x is left of the import", op.Key)
		}
	}
	if _, _, err := w.importInto(s, 0, file); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(context.Background(), w.graphs); err != nil {
		t.Fatal(err)
	}
}

// TestProveExportOfAnything: a file with random changes and a valid seal is refused, or its proof reports a
// fault. There is never a panic.
func TestProveExportOfAnything(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	for seed := range uint64(300) {
		x, err := check.Unpack(bytes.NewReader(mutate(t, w.export(runID(1+int(seed%2))), seed)))
		if err != nil {
			if _, ok := errors.AsType[*machine.Error](err); !ok {
				t.Fatalf("seed %d: untyped: %v", seed, err)
			}
			continue
		}
		proof, err := check.ProveExport(x, w.graph)
		if _, ok := errors.AsType[*machine.Error](err); err != nil && !ok || err == nil && proof.OK() {
			t.Errorf("seed %d: %+v, %v", seed, proof, err)
		}
		if err := check.Discard(x); err != nil {
			t.Fatal(err)
		}
	}
}

// mutate changes some bytes of one frame after the pack, or removes or repeats the frame, and adds a valid
// seal.
func mutate(t *testing.T, file []byte, seed uint64) []byte {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	r, err := runfile.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := runfile.NewWriter(&out, r.Header())
	if err != nil {
		t.Fatal(err)
	}
	victim := 1 + rnd.IntN(4)
	for n := 0; ; n++ {
		kind, body, err := r.Next()
		if err != nil {
			break
		}
		times := 1
		if n == victim {
			switch rnd.IntN(4) {
			case 0:
				times = 0
			case 1:
				times = 2
			default:
				for range 1 + rnd.IntN(3) { // after the format and the cursor, which are not in the chain
					body[9+rnd.IntN(len(body)-9)] ^= byte(1 + rnd.IntN(255))
				}
			}
		}
		for range times {
			if err := w.Frame(kind, body); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
