package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/memkv"
)

// unreliable is an engine whose reads fail on demand.
type unreliable struct {
	engine.Engine
	faults *kvtest.Faults
}

func (u unreliable) View(group uint64) kv.Snapshot { return u.faults.On(u.Engine.View(group)) }

func (u unreliable) Hold(group uint64) (kv.HeldGroup, error) {
	held, err := u.Engine.Hold(group)
	return unreliableHeld{held, u.faults}, err
}

type unreliableHeld struct {
	kv.HeldGroup
	faults *kvtest.Faults
}

func (h unreliableHeld) View() kv.Snapshot { return h.faults.On(h.HeldGroup.View()) }

// openUnreliable opens a store over a database whose reads fail on demand. Only the test reads, because the
// store stores no watermarks.
func openUnreliable(t *testing.T, db *memkv.DB) (*Store, *kvtest.Faults) {
	t.Helper()
	faults := new(kvtest.Faults)
	s, err := Open(unreliably(t, db, faults))
	if err != nil {
		t.Fatal(err)
	}
	s.ReplayWith(replayTest)
	return s, faults
}

func unreliably(t *testing.T, db *memkv.DB, faults *kvtest.Faults) Options {
	return Options{Dir: filepath.Join(t.TempDir(), "db"), MarkInterval: time.Hour, Engine: func(o Options) (engine.Engine, error) {
		e, err := memkv.Open(db, o.Dir, nil)
		return unreliable{e, faults}, err
	}}
}

var (
	webhook = machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "hook"}
	pushed  = machine.SubscriptionKey{Kind: machine.SubscriptionPush, Run: runID(1), ID: "push"}
	begun   = machine.UploadKey{Principal: "p", ID: "begun"}
)

// fullWorld fills a store with something to find for each method that reads.
func fullWorld(t *testing.T, s *Store) (*world, machine.Blob) {
	t.Helper()
	w, ctx := newWorld(t, s), context.Background()
	pack, errPack := s.PutPack(ctx, 0, putOf("codegen", "1.0.0", true))
	w.graph.Digest = pack.Digest
	for n := 1; n <= 4; n++ {
		w.live(runID(n))
	}
	w.end(runID(2))
	w.end(runID(4))
	w.delete(runID(4))
	w.end(runID(3))
	blob, _ := putBlob(t, s, "u", testTime, "one", "two")
	_, errUpload := s.AppendUpload(ctx, 0, begun, machine.Upload{}, []byte("a"), testTime)
	_, errOther := s.PutPack(ctx, 0, putOf("codegen", "1.1.0", false))
	_, errNames := s.NumberNamespaces(ctx, []string{"a", "b"})
	sub := machine.Subscription{SubscriptionKey: webhook, Owner: "me"}
	err := errors.Join(errUpload, errPack, errOther, errNames,
		s.PutSubscription(ctx, sub, nil), s.PutSubscription(ctx, machine.Subscription{SubscriptionKey: pushed, Owner: "me"}, nil),
		s.Schedules().Put(ctx, machine.ScheduleMark{ID: "a", Rule: "@daily UTC"}))
	for n := range uint64(3) {
		err = errors.Join(err, s.RecordDeadLetter(ctx, sub, &sub, machine.DeadLetter{N: n + 1, Event: "e", At: testTime}))
	}
	if err != nil {
		t.Fatal(err)
	}
	return w, blob
}

const always = uint64(1) << 62

// readers returns the exported methods that read, each with a call. Two calls of a method have the same
// result.
func readers(w *world, blob machine.Blob, step machine.OutboxRow) map[string]func(s *Store) (any, error) {
	ctx, run := context.Background(), runID(1)
	page := machine.Page{}
	due := w.runs[run].At + int64(24*time.Hour)
	// Graphs are compiled from the packs in the store.
	graphs := func(s *Store) check.Graphs {
		return func(digest, entry, agent string, override bool) (*machine.Graph, error) {
			if _, err := s.PackBytes(ctx, digest); err != nil {
				return nil, fmt.Errorf("compile: %w", err)
			}
			return w.graphs(digest, entry, agent, override)
		}
	}
	return map[string]func(s *Store) (any, error){
		"Schedules":        func(s *Store) (any, error) { return s.Schedules().Marks(ctx) },
		"ArtifactVersions": func(s *Store) (any, error) { return s.ArtifactVersions(ctx, 0, run, "report", always, false) },
		"ArtifactVersions newest": func(s *Store) (any, error) {
			return s.ArtifactVersions(ctx, 0, run, "plan", always, true)
		},
		"ArtifactVersionsAfter": func(s *Store) (any, error) { return s.ArtifactVersionsAfter(ctx, 0, run, "report", 1, always) },
		"Backup": func(s *Store) (any, error) {
			var out bytes.Buffer
			_, err := s.Backup(ctx, "", testTime, &out)
			return nil, err
		},
		"Blob":         func(s *Store) (any, error) { return s.Blob(ctx, 0, blob.SHA256) },
		"Check":        func(s *Store) (any, error) { return s.Check(ctx, graphs(s)) },
		"CheckWatched": func(s *Store) (any, error) { return s.CheckWatched(nil, noStep) },
		"Checkpoint":   func(s *Store) (any, error) { return s.Checkpoint(ctx, 0, run, always) },
		"FindRequestID": func(s *Store) (any, error) {
			d, found, err := s.FindRequestID(ctx, 0, machine.Dedupe{Scope: machine.PerRun, Kind: machine.CmdStart, RunID: run, ID: "id-1"})
			return fmt.Sprint(d, found), err
		},
		"CountRuns": func(s *Store) (any, error) {
			s.runCounts = runCounts{}
			return s.CountRuns(ctx, 0, []machine.Status{machine.Running, machine.Cancelled})
		},
		"LastBackup":      func(s *Store) (any, error) { return s.LastBackup(time.Now()) },
		"ListDeadLetters": func(s *Store) (any, error) { return s.ListDeadLetters(ctx, webhook, 0, 10) },
		"DueTimers": func(s *Store) (any, error) {
			s.watermarks.queues = map[layout.QueueID]*watermark{}
			timers, next, err := s.DueTimers(ctx, due, 10)
			return fmt.Sprint(timers, next), err
		},
		"Effect": func(s *Store) (any, error) {
			_, found, err := s.Effect(ctx, 0, [32]byte{1})
			return found, err
		},
		"Entries": func(s *Store) (any, error) { return s.Entries(ctx, 0, run, 3, page) },
		"Entries of a deleted run": func(s *Store) (any, error) {
			out, err := s.Entries(ctx, 0, runID(4), 1, page)
			return out, withoutError(err, reasonOf(err) == "RUN_DELETED")
		},
		"Entry": func(s *Store) (any, error) { return s.Entry(ctx, 0, run, 4) },
		"Export": func(s *Store) (any, error) {
			var out bytes.Buffer
			err := s.Export(ctx, 0, run, &out)
			return nil, err
		},
		"Head": func(s *Store) (any, error) { return s.Head(ctx, 0, run) },
		"Head of nobody": func(s *Store) (any, error) {
			st, err := s.Head(ctx, 0, "nobody")
			return st, withoutError(err, errors.Is(err, machine.ErrNoRun))
		},
		"Decisions": func(s *Store) (any, error) {
			all, err := s.Decisions(ctx, 0, machine.DecisionSearch{Limit: 10})
			return fmt.Sprint(len(all.Entries), all.Next, all.Removed), err
		},
		"Decisions of a run": func(s *Store) (any, error) {
			all, err := s.Decisions(ctx, 0, machine.DecisionSearch{Run: run, Limit: 10})
			return fmt.Sprint(len(all.Entries), all.Next), err
		},
		"Usage": func(s *Store) (any, error) {
			rows := 0
			since, err := s.Usage(ctx, 0, machine.UsageSearch{To: 1 << 20}, func(*machine.UsageRow) bool { rows++; return true })
			return fmt.Sprint(rows, since), err
		},
		"Held": func(s *Store) (any, error) { return s.Held(ctx, 0, machine.HeldPlace{}, false, 10) },
		"Journal": func(s *Store) (any, error) {
			e, at, err := s.Journal(ctx, 0, 0, page)
			return fmt.Sprint(len(e), at), err
		},
		"ListPacks": func(s *Store) (any, error) {
			packs, next, err := s.ListPacks(ctx, 0, "", 1)
			return fmt.Sprint(packs, next), err
		},
		"ListRuns": func(s *Store) (any, error) {
			runs, next, err := s.ListRuns(ctx, 0, machine.RunFilter{}, "", 10)
			return fmt.Sprint(len(runs), next), err
		},
		"ListRuns by two lists": func(s *Store) (any, error) {
			f := machine.RunFilter{Pack: "codegen", Labels: []machine.Label{{Key: "team", Value: "core"}}, State: "test"}
			runs, next, err := s.ListRuns(ctx, 0, f, "", 10)
			return fmt.Sprint(len(runs), next), err
		},
		"Measure":     func(s *Store) (any, error) { return s.Measure(func() error { return nil }) },
		"MessageRows": func(s *Store) (any, error) { return s.MessageRows(ctx, 0, run, "plan", 0, 9) },
		"Outbox": func(s *Store) (any, error) {
			s.watermarks.queues = map[layout.QueueID]*watermark{}
			return s.Outbox(ctx, machine.OutboxStep, due, 10)
		},
		"OutboxOf": func(s *Store) (any, error) {
			s.watermarks.queues = map[layout.QueueID]*watermark{}
			return s.OutboxOf(ctx, 0, machine.OutboxStep, due, 10)
		},
		"Pack":      func(s *Store) (any, error) { return s.Pack(ctx, 0, "codegen@1.1.0") },
		"PackBytes": func(s *Store) (any, error) { return s.PackBytes(ctx, putOf("codegen", "1.0.0", true).Row.Digest) },
		"Piece":     func(s *Store) (any, error) { return s.Piece(ctx, 0, blob.Pieces, 1) },
		"Prove":     func(s *Store) (any, error) { return s.Prove(ctx, 0, run, w.graph) },
		"ProveAll": func(s *Store) (any, error) {
			proofs := 0
			err := s.ProveAll(ctx, "", graphs(s), func(_ uint32, _ string, p machine.Proof) error {
				if !p.OK() {
					return fmt.Errorf("not in order: %+v", p)
				}
				proofs++
				return nil
			})
			return proofs, err
		},
		"ReadyRuns":            func(s *Store) (any, error) { return s.ReadyRuns(ctx, 0, "", 10) },
		"RunBytes":             func(s *Store) (any, error) { return s.RunBytes(ctx, 0, run) },
		"StepHolder":           func(s *Store) (any, error) { return s.StepHolder(ctx, step) },
		"Subscription":         func(s *Store) (any, error) { return s.Subscription(ctx, webhook) },
		"Subscriptions":        func(s *Store) (any, error) { return s.Subscriptions(ctx, 0, machine.SubscriptionWebhook, "") },
		"Tasks":                func(s *Store) (any, error) { return tasksOf(s, "", "") },
		"Tasks of a context":   func(s *Store) (any, error) { return tasksOf(s, "", "context") },
		"Tasks of a principal": func(s *Store) (any, error) { return tasksOf(s, "me", "") },
		"HasUnconfirmedCancel": func(s *Store) (any, error) { return s.HasUnconfirmedCancel(ctx, 0, run) },
		"Upload":               func(s *Store) (any, error) { return s.Upload(ctx, 0, begun) },
		"View": func(s *Store) (any, error) {
			return nil, s.View(func(txn *layout.Txn) error { _, err := layout.Accounts(txn); return err })
		},
	}
}

// step returns a step in the outbox that is due.
func (w *world) step(due int64) machine.OutboxRow {
	w.t.Helper()
	rows, err := w.store.Outbox(context.Background(), machine.OutboxStep, due, 1)
	if err != nil || len(rows) == 0 {
		w.t.Fatalf("%d steps, %v", len(rows), err)
	}
	return rows[0]
}

func noStep(*check.Report) error { return nil }

func withoutError(err error, expected bool) error {
	if expected {
		return nil
	}
	return err
}

func tasksOf(s *Store, owner, contextID string) (int, error) {
	n := 0
	err := s.Tasks(context.Background(), 0, owner, contextID, 10, func(*machine.State) bool { n++; return true })
	return n, err
}

// writers are the exported methods that write. Each of them may also read.
var writers = []string{
	"AppendUpload", "Commit", "DeleteRun", "DiscardDeadLetter", "DropOutbox", "DropSubscription", "EraseRun", "FinishUpload", "ForgetDeleted",
	"HoldStep", "Import", "NumberNamespaces", "PutPack", "PutSubscription", "RecordDeadLetter", "Repair", "SweepBlobs", "TrimDeadLetters",
}

// otherMethods are the methods that neither read nor write rows.
var otherMethods = []string{"Close", "CopyRunKeys", "Dir", "Discard", "Encode", "Epoch", "Failed", "Format", "CheckRemovalSpace", "ReplayWith", "Sizes", "Space", "Stats", "Tail", "Unpack"}

// TestEveryMethodIsKnown: each exported method is in one of the lists of these tests.
func TestEveryMethodIsKnown(t *testing.T) {
	t.Parallel()
	w := &world{runs: map[string]*machine.State{runID(1): {}}}
	known := slices.Concat(writers, otherMethods)
	for name := range readers(w, machine.Blob{}, machine.OutboxRow{}) {
		known = append(known, name)
	}
	for method := range reflect.TypeFor[*Store]().Methods() {
		if !slices.Contains(known, method.Name) {
			t.Errorf("%s is in none of the lists", method.Name)
		}
	}
}

// TestAReadThatFailsIsTold: if any read of the engine fails, the method that reads returns the error and
// never an incomplete result. Afterwards the method returns the same result as before.
func TestAReadThatFailsIsTold(t *testing.T) {
	t.Parallel()
	s, faults := openUnreliable(t, memkv.New())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w, blob := fullWorld(t, s)
	for name, read := range readers(w, blob, w.step(math.MaxInt64)) {
		t.Run(name, func(t *testing.T) {
			faults.FailAfter(0)
			want, err := read(s)
			if err != nil {
				t.Fatal(err)
			}
			n := faults.Reads()
			if n == 0 {
				t.Fatal("it reads nothing")
			}
			for i := int64(1); i <= n; i++ {
				faults.FailAfter(i)
				if got, err := read(s); !errors.Is(err, kvtest.ErrRead) {
					t.Fatalf("read %d of %d failed: %v, %v", i, n, got, err)
				}
			}
			faults.FailAfter(0)
			if got, err := read(s); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("afterwards %v, %v; before %v", got, err, want)
			}
		})
	}
}
