package runtime_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

// lateStore shows what it has stored some time before it acknowledges it, as a disk does that acknowledges the
// batches of a group one after the other.
type lateStore struct {
	*testkit.Store
	mu sync.Mutex
	// late, if set, receives a channel for each batch or registration that is stored. The store acknowledges
	// it when the test closes this channel.
	late chan chan struct{}
}

func (s *lateStore) wait() {
	s.mu.Lock()
	late := s.late
	s.mu.Unlock()
	if late != nil {
		answer := make(chan struct{})
		late <- answer
		<-answer
	}
}

func (s *lateStore) Commit(ctx context.Context, b *machine.Batch) (machine.Committed, error) {
	done, err := s.Store.Commit(ctx, b)
	s.wait()
	return done, err
}

func (s *lateStore) PutPack(ctx context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error) {
	row, err := s.Store.PutPack(ctx, ns, put)
	s.wait()
	return row, err
}

// hold makes the store acknowledge late from now on. If late is nil, it ends that.
func (s *lateStore) hold(late chan chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = late
}

func lateRig(t *testing.T) (*rig, *lateStore) {
	late := &lateStore{}
	r := newRig(t, func(c *services.Config) {
		late.Store = c.Store.(*testkit.Store)
		c.Store = late
	})
	return r, late
}

// TestWhatIsShownIsAnswerable: a reader that was shown a record gets an answer to every question about it,
// although the commit of the record is not acknowledged yet.
func TestWhatIsShownIsAnswerable(t *testing.T) {
	t.Parallel()
	r, store := lateRig(t)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	run := r.start("s1")
	stored := make(chan chan struct{})
	store.hold(stored)
	ended := make(chan error, 1)
	go func() {
		_, err := r.EmitEvent(ctx, runtime.EmitRequest{RunRef: ref(run.RunID, everyone), Event: "Again", TurnToken: run.Turn.Token})
		ended <- err
	}()
	answer := <-stored
	filter := watchAll(everyone, streams.Filter{})
	filter.Snapshots = true
	rows := r.rest(r.watch(filter))
	shown := rows[len(rows)-1]
	seq := shown.Record.Seq
	if seq <= run.State.Seq {
		t.Fatalf("nothing new is shown: record %d", seq)
	}
	questions := map[string]func() error{
		"GetRun": func() error {
			_, err := r.GetRun(ctx, query.GetRunRequest{RunRef: ref(run.RunID, everyone), AtSeq: seq, Artifacts: true})
			return err
		},
		"ShowTurn": func() error { _, err := r.ShowTurn(ctx, ref(run.RunID, everyone), seq); return err },
		"ListTransitions": func() error {
			_, err := r.ListTransitions(ctx, streams.ListRecordsRequest{RunRef: ref(run.RunID, everyone), AfterSeq: seq})
			return err
		},
		"Watch": func() error {
			req := watchAll(everyone, streams.Filter{RunID: run.RunID})
			req.AfterSeq, req.AfterCursor = seq, shown.Cursor.String()
			w, err := r.Watch(ctx, req)
			if err == nil {
				w.Close()
			}
			return err
		},
		"WaitRun": func() error {
			s, settled, err := r.WaitRun(ctx, streams.WaitRequest{RunRef: ref(run.RunID, everyone), AfterSeq: seq - 1})
			if err == nil && (!settled || s.Seq < seq) {
				t.Errorf("WaitRun shows record %d", s.Seq)
			}
			return err
		},
		"DiffRuns": func() error {
			_, err := r.DiffRuns(ctx, timetravel.DiffRequest{RunRef: ref(run.RunID, everyone), Seq: seq, Other: run.RunID, OtherSeq: run.State.Seq})
			return err
		},
	}
	for name, ask := range questions {
		if err := ask(); err != nil {
			t.Errorf("%s about record %d, which was shown: %v", name, seq, err)
		}
	}
	if s := r.view(run.RunID).State; s.Seq < seq {
		t.Errorf("the run is at %d, record %d was shown", s.Seq, seq)
	}
	store.hold(nil)
	close(answer)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestAPackThatIsListedIsMeant: once the store has a new version, a start by the bare id uses it, although its
// registration is not acknowledged yet.
func TestAPackThatIsListedIsMeant(t *testing.T) {
	t.Parallel()
	r, store := lateRig(t)
	r.start("s1")
	stored := make(chan chan struct{})
	store.hold(stored)
	ended := make(chan error, 1)
	go func() {
		_, err := r.RegisterPack(context.Background(), packs.RegisterRequest{
			Call: runtime.Call{Principal: everyone}, Document: []byte(strings.Replace(loopPack, `"version": "1.0.0"`, `"version": "2.0.0"`, 1)),
		})
		ended <- err
	}()
	answer := <-stored
	store.hold(nil)
	if s := r.start("s2").State; s.PackVersion != "2.0.0" {
		t.Errorf("started version %s", s.PackVersion)
	}
	close(answer)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
