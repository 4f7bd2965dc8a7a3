package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit"
)

// forgery says how thorough an attacker is that changes payloads in the files of a store.
type forgery int

const (
	// payloads alone: the hash of the entry does not follow from its bytes any more.
	payloads forgery = iota
	// chain means that the hashes of all entries and of the head are computed again.
	chain
	// state: so is what the run's state says of the payload.
	state
)

// waiting is one run of a caller, with calls that were approved.
type waiting struct {
	run, tool string
	// payloads are the payloads by step as they were approved.
	payloads map[uint32]string
}

// approvedCalls makes a run with n approved calls, every third with arguments that the person
// changed. No worker is connected: nothing goes out.
func approvedCalls(ctx context.Context, t *testing.T, s *sidecar, tool string, n int) waiting {
	t.Helper()
	started, err := s.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "mutated", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		t.Fatal(err)
	}
	w := waiting{run: started.GetRun().GetRunId(), tool: tool, payloads: map[uint32]string{}}
	var calls []*pawlv1.StepOutcome
	for from := 0; from < n; from += 64 {
		req := &pawlv1.RequestStepRequest{RunId: w.run, TurnToken: started.GetTurn().GetToken(), TurnSeq: started.GetTurn().GetTurnSeq(), Attempt: 1}
		for i := from; i < min(n, from+64); i++ {
			req.Requests = append(req.Requests, &pawlv1.StepRequest{Key: strconv.Itoa(i), Tool: tool, PayloadJson: paymentArgs(tool, 1000+i)})
		}
		got, err := s.runs().RequestStep(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, got.GetOutcomes()...)
	}
	if tool == "payer" {
		// While it is paused nothing is announced to the agent: no later entry is this run's.
		if _, err := s.runs().PauseRun(ctx, &pawlv1.PauseRunRequest{RunId: w.run}); err != nil {
			t.Fatal(err)
		}
	}
	client := pawlv1.NewControlServiceClient(s.dial())
	var mu sync.Mutex
	var people sync.WaitGroup
	for i, out := range calls {
		people.Go(func() {
			step := out.GetStep()
			req := &pawlv1.DecideStepRequest{
				RunId: w.run, Step: step.GetStep(), Digest: step.GetApproval().GetDigest(), Decision: pawlv1.StepDecision_STEP_DECISION_APPROVE,
			}
			payload := step.GetPayloadJson()
			if i%3 == 0 {
				payload = paymentArgs(tool, 5000+i)
				req.Decision, req.PayloadJson = pawlv1.StepDecision_STEP_DECISION_EDIT, payload
			}
			decide := func(ctx context.Context) (*pawlv1.DecideStepResponse, error) { return client.DecideStep(ctx, req) }
			if _, err := play.Retry(ctx, decide); err != nil {
				t.Errorf("step %d: %v, %v", step.GetStep(), out, err)
			}
			mu.Lock()
			defer mu.Unlock()
			w.payloads[step.GetStep()] = payload
		})
	}
	people.Wait()
	return w
}

// paymentArgs are arguments of a tool.
func paymentArgs(tool string, amount int) string {
	if tool == "payer" {
		return fmt.Sprintf(`{"message":"pay %d to DE89370400440532013000"}`, amount)
	}
	return fmt.Sprintf(`{"amount":%d,"to":"DE89370400440532013000"}`, amount)
}

// mutate changes the payloads of a stopped sidecar's store, every eighth excepted, and gives
// back what was left as it was: keys RUN/STEP.
func mutate(t *testing.T, dir string, how forgery, all []waiting) (left map[string]bool, mutated int) {
	t.Helper()
	db, err := badger.OpenManaged(badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{t: t, forgery: how, rng: rand.New(rand.NewPCG(uint64(how), 77)), remaining: map[string]bool{}, txn: db.NewTransactionAt(db.MaxVersion(), true)}
	for i := range all {
		f.run(all[i].run)
	}
	if err := errors.Join(f.txn.CommitAt(db.MaxVersion()+1, nil), db.Close()); err != nil {
		t.Fatal(err)
	}
	return f.remaining, f.mutations
}

// forger changes rows.
type forger struct {
	t         *testing.T
	forgery   forgery
	rng       *rand.Rand
	txn       *badger.Txn
	remaining map[string]bool
	mutations int
	// hashes are those of changed payloads by step.
	hashes map[uint32][32]byte
}

// run goes through the entries of a run.
func (f *forger) run(run string) {
	f.t.Helper()
	f.hashes = map[uint32][32]byte{}
	prev := [32]byte{}
	for first := uint64(1); ; {
		key := layout.EntryKey(0, run, first)
		item, err := f.txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			break
		}
		f.check(err)
		old, err := item.ValueCopy(nil)
		f.check(err)
		entry, err := codec.DecodeEntry(run, old)
		f.check(err)
		f.entry(&entry)
		value, hash, err := codec.EncodeEntry(prev, first, &entry.Input, entry.Records)
		f.check(err)
		codec.SetCursor(value, entry.Cursor)
		if f.forgery == payloads {
			copy(value[9:73], old[9:73]) // both hashes stay as they were
		}
		f.check(f.txn.Set(key, value))
		first, prev = first+uint64(len(entry.Records)), hash
	}
	if f.forgery == payloads {
		return
	}
	key := layout.HeadKey(0, run)
	item, err := f.txn.Get(key)
	f.check(err)
	raw, err := item.ValueCopy(nil)
	f.check(err)
	head, err := codec.DecodeHead(raw)
	f.check(err)
	for i := range head.Steps {
		if hash, ok := f.hashes[head.Steps[i].Step]; ok && f.forgery == state {
			head.Steps[i].PayloadHash = hash
		}
	}
	f.check(f.txn.Set(key, codec.EncodeHead(head, prev)))
}

func (f *forger) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// entry changes what an entry asks for, in its input and in its records.
func (f *forger) entry(e *machine.Entry) {
	for i := range e.Records {
		switch body := e.Records[i].Body.(type) {
		case *machine.StepRequested:
			cmd, ok := e.Input.Command.(machine.RequestSteps)
			if !ok || !f.change(e.RunID, body.Step, &body.Payload) {
				continue
			}
			for j := range cmd.Requests {
				if cmd.Requests[j].Key == body.Key {
					cmd.Requests[j].Payload = body.Payload
				}
			}
		case *machine.StepDecided:
			cmd, ok := e.Input.Command.(machine.DecideStep)
			if ok && len(body.Payload) > 0 && f.change(e.RunID, body.Step, &body.Payload) {
				cmd.Payload = body.Payload
				e.Input.Command = cmd
			}
		}
	}
}

// change makes another call of a payload that is valid, or none.
func (f *forger) change(run string, step uint32, payload *[]byte) bool {
	if key := fmt.Sprintf("%s/%d", run, step); step%8 == 0 {
		f.remaining[key] = true
		return false
	}
	changed := bytes.Clone(*payload)
	switch f.rng.IntN(4) {
	case 0:
		at := bytes.IndexAny(changed, "0123456789")
		changed[at] = '1' + (changed[at]-'0')%9
	case 1:
		changed = bytes.Replace(changed, []byte("DE89370400440532013000"), []byte("DE02120300000000202051"), 1)
	case 2:
		changed = append([]byte(`{"also":"this",`), changed[1:]...)
	default:
		at := f.rng.IntN(len(changed))
		changed[at] ^= 1 << f.rng.IntN(7)
	}
	if validate.PayloadHash(changed) == validate.PayloadHash(*payload) {
		f.t.Fatalf("%s is %s", changed, *payload)
	}
	*payload, f.hashes[step] = changed, validate.PayloadHash(changed)
	f.mutations++
	return true
}

// TestMutatedPayloadsDoNotGoOut: between approval and dispatch payloads are changed in the files
// of a stopped sidecar, with the checksums that guard them and without; what is sent to a worker,
// to an agent and to the caller who executes its own calls is what was approved, or nothing, and
// the record says why (PAWL_MUTATIONS, of each way).
func TestMutatedPayloadsDoNotGoOut(t *testing.T) {
	t.Parallel()
	n := 32
	if v, err := strconv.Atoi(os.Getenv("PAWL_MUTATIONS")); err == nil {
		n = v
	}
	for name, how := range map[string]forgery{"payloads": payloads, "and their chain": chain, "and the state": state} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkMutations(t, how, n)
		})
	}
}

func checkMutations(t *testing.T, how forgery, n int) {
	args := []string{"--pack", "testdata/mutated.pack.yaml", "--allow-tool", "*", "--restart-grace", "100ms"}
	remote := newSidecar(t, args...)
	s := newSidecar(t, append(args, "--agent", "payer="+cardOf(t, doorTo(t, remote.socket), "mutated/payer"))...)
	s.start()
	ctx := deadline(t, 10*time.Minute)
	work, own, agent := approvedCalls(ctx, t, s, "refund", n), approvedCalls(ctx, t, s, "refund", n), approvedCalls(ctx, t, s, "payer", n)
	approvedCalls(ctx, t, s, "refund", 1) // the last entry of all has a mark of its own
	if code := s.stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	left, mutations := mutate(t, s.dir, how, []waiting{work, own, agent})
	// With a new chain, a changed payload is consistent with the stored bytes. Only the digest of
	// the approval reveals it.
	if out, err := s.checked(); err == nil && how != chain {
		t.Errorf("pawl check finds nothing: %s", out)
	}
	s.start()
	if _, err := s.runs().ResumeRun(ctx, &pawlv1.ResumeRunRequest{RunId: agent.run}); err != nil {
		t.Fatal(err)
	}
	effects := &refunds{payments: map[string][]string{}}
	effects.executeOwnCalls(ctx, t, s, own.run)
	stop := startWorker(ctx, t, s, pawl.WorkerConfig{ID: "teller", Steps: 16, Tools: map[string]pawl.ToolFunc{"refund": effects.pay}})
	defer stop()
	remote.start()
	defer startWorker(ctx, t, remote, pawl.WorkerConfig{ID: "payer", Turns: 16, Prompts: map[string]pawl.TurnFunc{"payer": effects.payTurn}})()
	for _, w := range []waiting{work, own, agent} {
		w.sent(ctx, t, s, left, effects)
	}
	testkit.ReportTried(t, mutations, "mutated payloads")
	t.Logf("%d of %d calls were left as they were, and went out", len(left), 3*n)
}

// executeOwnCalls is the caller of a run that executes its calls itself, those that GetTurn shows to it.
func (r *refunds) executeOwnCalls(ctx context.Context, t *testing.T, s *sidecar, run string) {
	t.Helper()
	turn, err := s.runs().GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: run})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range turn.GetSteps() {
		if step.GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING {
			continue
		}
		r.payments[step.GetIdempotencyKey()] = append(r.payments[step.GetIdempotencyKey()], step.GetPayloadJson())
		if _, err := s.runs().ResolveStep(ctx, &pawlv1.ResolveStepRequest{
			RunId: run, Step: step.GetStep(), Tool: step.GetTool(), Attempt: step.GetAttempt(), TurnToken: turn.GetTurn().GetToken(),
			Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: `"paid"`},
		}); err != nil {
			t.Error(err)
		}
	}
}

// payTurn is the agent. It pays what the message contains. Only the amount identifies the call.
func (r *refunds) payTurn(_ context.Context, turn *pawl.Turn) (pawl.Completion, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range turn.Assignment.GetTurn().GetMessages() {
		text := m.GetParts()[0].GetText()
		r.payments[text] = append(r.payments[text], text)
	}
	return pawl.Completion{Output: textParts("paid")}, nil
}

// sent waits until every call is answered, and proves what went out: those that were left as
// they were, once, and nothing else; the record says why.
func (w *waiting) sent(ctx context.Context, t *testing.T, s *sidecar, left map[string]bool, effects *refunds) {
	t.Helper()
	var turn *pawlv1.GetTurnResponse
	eventually(t, "all calls are answered", func() bool {
		var err error
		turn, err = s.runs().GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: w.run})
		return err == nil && !slices.ContainsFunc(turn.GetSteps(), func(p *pawlv1.Step) bool { return p.GetStatus() == pawlv1.StepStatus_STEP_STATUS_PENDING })
	})
	page, err := s.runs().ListTransitions(ctx, &pawlv1.ListTransitionsRequest{
		RunId: w.run, PageSize: 1000, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED},
	})
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[uint32]string{}
	for _, r := range page.GetRecords() {
		recorded[r.GetStepResolved().GetStep()] = r.GetStepResolved().GetError().GetCode()
	}
	effects.mu.Lock()
	defer effects.mu.Unlock()
	for _, step := range turn.GetSteps() {
		id, want := step.GetIdempotencyKey(), w.payloads[step.GetStep()]
		key := id
		if w.tool == "payer" {
			key = messageOf(want)
			want = key
		}
		paid := effects.payments[key]
		if left[id] && (len(paid) != 1 || paid[0] != want || recorded[step.GetStep()] != "") {
			t.Errorf("%s of %s, approved as %s: went out as %v, recorded %q", w.tool, id, want, paid, recorded[step.GetStep()])
		}
		if !left[id] && (len(paid) != 0 || step.GetError().GetCode() != "APPROVAL_MISMATCH" || recorded[step.GetStep()] != "APPROVAL_MISMATCH") {
			t.Errorf("%s of %s, changed: went out as %v, answered %v, recorded %q", w.tool, id, paid, step.GetError(), recorded[step.GetStep()])
		}
		delete(effects.payments, key)
	}
	for key, paid := range effects.payments {
		if w.tool == "payer" && !strings.Contains(key, "/") {
			t.Errorf("the agent was told %v, which nobody approved", paid)
		}
	}
}

// messageOf returns the message that an agent receives.
func messageOf(payload string) string {
	var told struct{ Message string }
	_ = json.Unmarshal([]byte(payload), &told)
	return told.Message
}
