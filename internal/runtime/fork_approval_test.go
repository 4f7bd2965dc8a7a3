package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
)

// TestForkBehindAnApproval: a fork that begins behind a state that is moved from outside
// needs the right to approve.
func TestForkBehindAnApproval(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.register("", strings.Replace(loopPack, `"version": "1.0.0"`, `"version": "2.0.0"`, 1))
	run := r.start("a").RunID
	ctx := context.Background()
	fork := func(seq uint64, pack string, who runtime.Principal) error {
		_, err := r.ForkRun(ctx, timetravel.ForkRequest{RunRef: ref(run, who), AtSeq: seq, Pack: pack})
		return err
	}
	turn, err := r.GetTurn(ctx, ref(run, everyone))
	if err != nil {
		t.Fatal(err)
	}
	before := r.view(run).State.Seq
	r.emit(run, "Ask", "e1", turn.Token)
	asking := r.view(run).State.Seq
	if _, err := r.EmitEvent(ctx, runtime.EmitRequest{RunRef: ref(run, everyone), Event: "Rejected", EventID: "e2"}); err != nil {
		t.Fatal(err)
	}
	behind := r.view(run).State.Seq
	for name, c := range map[string]struct {
		seq  uint64
		pack string
		who  runtime.Principal
		ok   bool
	}{
		"before it":                     {before, "", driver, true},
		"before it, another pack":       {before, "loop@2.0.0", driver, true},
		"while it waits":                {asking, "", driver, true},
		"while it waits, another pack":  {asking, "loop@2.0.0", driver, true},
		"behind it":                     {behind, "", driver, false},
		"behind it, another pack":       {behind, "loop@2.0.0", driver, false},
		"behind it, by who may approve": {behind, "", everyone, true},
		"behind it, by an admin":        {behind, "loop@2.0.0", boss, true},
	} {
		err := fork(c.seq, c.pack, c.who)
		refusal, _ := errors.AsType[*machine.Error](err)
		if c.ok != (err == nil) || !c.ok && (refusal == nil || refusal.Reason != "SCOPE_MISSING") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForkOfARunThatBeganInTheMiddle: a run began in a state in which only an admin may start runs.
// A principal that may only start runs cannot fork it with other values.
func TestForkOfARunThatBeganInTheMiddle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.startWith(runtime.StartRequest{
		Call: runtime.Call{Principal: boss}, Pack: "loop", State: "desk", Execution: machine.Caller,
		Variables: []byte(`{"goal":"one"}`),
	}).RunID
	for name, c := range map[string]struct {
		who runtime.Principal
		ok  bool
	}{
		"by a driver": {driver, false}, "by who may approve": {everyone, true}, "by an admin": {boss, true},
	} {
		_, err := r.ForkRun(context.Background(), timetravel.ForkRequest{RunRef: ref(run, c.who), Variables: []byte(`{"goal":"another"}`)})
		refusal, _ := errors.AsType[*machine.Error](err)
		if c.ok != (err == nil) || !c.ok && (refusal == nil || refusal.Reason != "SCOPE_MISSING") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
