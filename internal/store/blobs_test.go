package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// putBlob uploads the pieces and finishes the upload as a blob.
func putBlob(t *testing.T, s *Store, id string, at int64, pieces ...string) (machine.Blob, bool) {
	t.Helper()
	ctx, key := context.Background(), machine.UploadKey{Principal: "p", ID: id}
	hash := sha256.New()
	var up machine.Upload
	var err error
	for _, piece := range pieces {
		hash.Write([]byte(piece))
		if up, err = s.AppendUpload(ctx, 0, key, up, []byte(piece), at); err != nil {
			t.Fatal(err)
		}
	}
	blob := machine.Blob{SHA256: [32]byte(hash.Sum(nil)), Size: up.Size, Chunks: up.Chunks, MediaType: "text/plain", At: at, Pieces: up.Pieces}
	existed, err := s.FinishUpload(ctx, 0, key, up, blob)
	if err != nil {
		t.Fatal(err)
	}
	return blob, existed
}

func checked(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.Check(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	blob, existed := putBlob(t, s, "u", testTime, "one", "two")
	if existed {
		t.Fatal("the first blob existed")
	}
	got, err := s.Blob(ctx, 0, blob.SHA256)
	if err != nil || got != blob {
		t.Fatalf("read %+v, %v, want %+v", got, err, blob)
	}
	for n, want := range []string{"one", "two"} {
		if piece, err := s.Piece(ctx, 0, got.Pieces, n); err != nil || string(piece) != want {
			t.Fatalf("piece %d is %q, %v", n, piece, err)
		}
	}
	if _, existed = putBlob(t, s, "v", testTime+5, "onet", "wo"); !existed {
		t.Fatal("the same bytes again are a new blob")
	}
	if got, err = s.Blob(ctx, 0, blob.SHA256); err != nil || got.At != testTime+5 || got.Pieces != blob.Pieces {
		t.Fatalf("stored again: %+v, %v", got, err)
	}
	empty, _ := putBlob(t, s, "e", testTime)
	if got, err = s.Blob(ctx, 0, empty.SHA256); err != nil || got.Size != 0 {
		t.Fatalf("the empty blob: %+v, %v", got, err)
	}
	if _, err = s.Blob(ctx, 1, blob.SHA256); !errors.Is(err, machine.ErrNoBlob) {
		t.Fatalf("in another namespace: %v", err)
	}
	checked(t, s)
}

// TestUploadRace: if two callers write the next piece of an upload, the second one receives an error.
func TestUploadRace(t *testing.T) {
	t.Parallel()
	s, ctx, key := openTemp(t), context.Background(), machine.UploadKey{Principal: "p", ID: "u"}
	up, err := s.AppendUpload(ctx, 0, key, machine.Upload{}, []byte("a"), testTime)
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []machine.Upload{{}, {Size: 1, Chunks: 1, At: 7, Pieces: up.Pieces}} {
		if _, err := s.AppendUpload(ctx, 0, key, before, []byte("b"), testTime); !errors.Is(err, machine.ErrUploadChanged) {
			t.Errorf("after %+v: %v", before, err)
		}
	}
	if _, err := s.FinishUpload(ctx, 0, key, machine.Upload{}, machine.Blob{}); !errors.Is(err, machine.ErrUploadChanged) {
		t.Errorf("a finish of nothing: %v", err)
	}
	if got, err := s.Upload(ctx, 0, key); err != nil || got != up {
		t.Fatalf("the upload is %+v, %v, want %+v", got, err, up)
	}
	if got, err := s.Upload(ctx, 0, machine.UploadKey{Principal: "q", ID: "u"}); err != nil || got.Chunks != 0 {
		t.Fatalf("another principal's: %+v, %v", got, err)
	}
	checked(t, s)
}

// TestSweepBlobs: a sweep removes an old blob that no run refers to. References that were made since the last
// sweep count. References in other namespaces do not count.
func TestSweepBlobs(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	used, _ := putBlob(t, s, "used", testTime, "used")
	late, _ := putBlob(t, s, "late", testTime, "late")
	unused, _ := putBlob(t, s, "unused", testTime, "un", "used")
	fresh, _ := putBlob(t, s, "fresh", testTime+100, "fresh")
	if _, err := s.AppendUpload(ctx, 0, machine.UploadKey{ID: "stuck"}, machine.Upload{}, []byte("stuck"), testTime); err != nil {
		t.Fatal(err)
	}
	start := startBatch(runID(1), "")
	mustCommit(t, s, start)
	refer := eventBatch(start.State, fmt.Appendf(nil, `see "blob:sha256:%x" and blob:sha256:short`, used.SHA256))
	mustCommit(t, s, refer)
	sweep := func(want machine.BlobSweep) {
		t.Helper()
		got, err := s.SweepBlobs(ctx, 0, testTime+50)
		if err != nil || got != want {
			t.Fatalf("swept %+v, %v, want %+v", got, err, want)
		}
		checked(t, s)
	}
	mustCommit(t, s, eventBatch(refer.State, fmt.Appendf(nil, "blob:sha256:%x", late.SHA256)))
	sweep(machine.BlobSweep{Blobs: 1, Uploads: 1, Bytes: 11})
	sweep(machine.BlobSweep{})
	for blob, kept := range map[machine.Blob]bool{used: true, late: true, fresh: true, unused: false} {
		if _, err := s.Blob(ctx, 0, blob.SHA256); errors.Is(err, machine.ErrNoBlob) == kept {
			t.Errorf("blob %x: %v, kept should be %v", blob.SHA256, err, kept)
		}
	}
	again, existed := putBlob(t, s, "again", testTime+60, "un", "used")
	if existed || again.SHA256 != unused.SHA256 {
		t.Fatal("a blob that was swept cannot be stored again")
	}
	if got, err := s.SweepBlobs(ctx, 7, testTime+50); err != nil || got != (machine.BlobSweep{}) {
		t.Fatalf("an empty namespace: %+v, %v", got, err)
	}
}

// TestSweepMeetsReference: a sweep and the commit that first refers to an old blob have an order, even in one
// group. If the commit is first, the blob stays. If the sweep is first, the commit succeeds and refers to a
// blob that does not exist.
func TestSweepMeetsReference(t *testing.T) {
	t.Parallel()
	for name, commitFirst := range map[string]bool{"commit first": true, "sweep first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, st := newStalledStore(t)
			ctx := context.Background()
			blob, _ := putBlob(t, s, "old", testTime, "old")
			start := startBatch(runID(1), "")
			mustCommit(t, s, start)
			batch := eventBatch(start.State, fmt.Appendf(nil, "blob:sha256:%x", blob.SHA256))
			commit, err := s.Encode(batch)
			if err != nil {
				t.Fatal(err)
			}
			row := layout.Op{Key: layout.BlobKey(0, blob.SHA256)}
			if _, row.Value, err = s.blob(row.Key); err != nil {
				t.Fatal(err)
			}
			drop := dropWrites(0, row, blob.Pieces, blob.Chunks)
			drop.requireNoRefs = layout.BlobRefsOf(0, blob.SHA256)
			order := []*Writes{drop, commit}
			if commitFirst {
				order = []*Writes{commit, drop}
			}
			st.hold(func() { _, _ = s.Commit(ctx, startBatch(runID(2), "")) })
			done := make(map[*Writes]chan error)
			for _, w := range order {
				if err := s.checkSize(w); err != nil {
					t.Fatal(err)
				}
				done[w] = make(chan error, 1)
				s.committer.queue <- &request{w: w, done: done[w]}
			}
			st.release()
			if err := <-done[commit]; err != nil {
				t.Fatal(err)
			}
			if err := <-done[drop]; errors.Is(err, errReferred) != commitFirst || !commitFirst && err != nil {
				t.Fatalf("the sweep: %v", err)
			}
			if _, err := s.Blob(ctx, 0, blob.SHA256); errors.Is(err, machine.ErrNoBlob) == commitFirst {
				t.Fatalf("the blob: %v", err)
			}
			checked(t, s)
		})
	}
}

// TestSweepsAmongCommits: runs refer for the first time to old blobs while sweeps run all the time. If a blob
// exists when the commit of a reference is answered, it exists afterwards too.
func TestSweepsAmongCommits(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	stop := make(chan struct{})
	var sweeps sync.WaitGroup
	sweeps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := s.SweepBlobs(ctx, 0, testTime+50); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var commits sync.WaitGroup
	kept := make([]int, 4)
	for n := range kept {
		commits.Go(func() {
			b := startBatch(runID(n), "")
			mustCommit(t, s, b)
			for i := range 20 {
				sum := oldBlob(t, s, fmt.Sprint("blob ", n, i))
				b = eventBatch(b.State, fmt.Appendf(nil, "blob:sha256:%x", sum))
				mustCommit(t, s, b)
				if _, err := s.Blob(ctx, 0, sum); errors.Is(err, machine.ErrNoBlob) {
					continue // swept before the commit
				}
				kept[n]++
				if _, err := s.SweepBlobs(ctx, 0, testTime+50); err != nil {
					t.Error(err)
				}
				if _, err := s.Blob(ctx, 0, sum); err != nil {
					t.Errorf("a blob that a run refers to: %v", err)
				}
			}
		})
	}
	commits.Wait()
	close(stop)
	sweeps.Wait()
	t.Logf("kept %v of 20 each", kept)
	checked(t, s)
}

// oldBlob stores a blob that is old enough for a sweep. Its upload is not.
func oldBlob(t *testing.T, s *Store, text string) [32]byte {
	t.Helper()
	ctx, key, sum := context.Background(), machine.UploadKey{Principal: "p", ID: text}, sha256.Sum256([]byte(text))
	up, err := s.AppendUpload(ctx, 0, key, machine.Upload{}, []byte(text), testTime+100)
	if err == nil {
		_, err = s.FinishUpload(ctx, 0, key, up, machine.Blob{SHA256: sum, Size: up.Size, Chunks: up.Chunks, At: testTime, Pieces: up.Pieces})
	}
	if err != nil {
		t.Error(err)
	}
	return sum
}

// TestCheckFindsBlobFaults: a check finds a piece that was changed, a piece that is missing, and a piece that
// belongs to no blob.
func TestCheckFindsBlobFaults(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	blob, _ := putBlob(t, s, "u", testTime, "one", "two")
	second := layout.PieceKey(0, blob.Pieces, 1)
	for name, op := range map[string]layout.Op{
		"changed piece": {Key: second, Value: []byte("twO")},
		"missing piece": {Key: second, Delete: true},
		"stray piece":   {Key: layout.PieceKey(0, blob.Pieces, 2), Value: []byte("more")},
		"changed row":   {Key: layout.BlobKey(0, blob.SHA256), Value: []byte{9}},
		"upload":        {Key: layout.UploadKey(0, machine.UploadKey{ID: "x"}), Value: []byte{9}},
	} {
		before := rows(t, s)
		raw(t, s, op)
		var fault *check.Fault
		if _, err := s.Check(context.Background(), nil); !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
		raw(t, s, layout.Op{Key: op.Key, Delete: true})
		raw(t, s, before...)
		checked(t, s)
	}
}
