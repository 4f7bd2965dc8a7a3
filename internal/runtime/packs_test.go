package runtime_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func TestPacks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	call := runtime.Call{Principal: everyone}
	register := func(document string, change func(*runtime.RegisterRequest)) (runtime.PackAnswer, error) {
		req := runtime.RegisterRequest{Call: call, Document: []byte(document)}
		if change != nil {
			change(&req)
		}
		return r.RegisterPack(ctx, req)
	}
	first, err := r.GetPack(ctx, call, "loop")
	if err != nil || first.Pack == nil || string(first.Row.Source) != loopPack {
		t.Fatalf("%+v, %v", first.Row, err)
	}
	same, err := register(loopPack, nil)
	if err != nil || same.Row.Digest != first.Row.Digest {
		t.Fatalf("the same bytes: %+v, %v", same.Row, err)
	}
	other := strings.Replace(loopPack, `"Loop"`, `"Other"`, 1)
	_, err = register(other, nil)
	wantReason(t, err, "PACK_VERSION_TAKEN")
	second := strings.Replace(loopPack, `"version": "1.0.0"`, `"version": "2.0.0"`, 1)
	if _, err := register(second, func(q *runtime.RegisterRequest) { q.KeepDefault = true }); err != nil {
		t.Fatal(err)
	}
	if run := r.start("old"); run.State.PackVersion != "1.0.0" {
		t.Fatalf("started %s", run.State.PackVersion)
	}
	if _, err := register(second, nil); err != nil {
		t.Fatal(err)
	}
	if run := r.start("new"); run.State.PackVersion != "2.0.0" {
		t.Fatalf("started %s", run.State.PackVersion)
	}
	if again := r.start("old"); !again.Duplicate || again.State.PackVersion != "1.0.0" {
		t.Fatal("a repeated start follows the moved default")
	}
	if _, err := register(other, func(q *runtime.RegisterRequest) { q.Move = true }); err != nil {
		t.Fatal(err)
	}
	page, err := r.ListPacks(ctx, call, "", 1)
	if err != nil || len(page.Packs) != 1 || page.NextPage == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	if page, err = r.ListPacks(ctx, call, page.NextPage, 1); err != nil || page.Packs[0].Version != "2.0.0" || page.NextPage != "" {
		t.Fatalf("%+v, %v", page, err)
	}
}

// TestARunKeepsItsDigest: an edited pack under the same name never changes a
// run that is under way, nor after a restart.
func TestARunKeepsItsDigest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	edited := strings.Replace(loopPack, `"Again": "work"`, `"Again": "gate"`, 1)
	if _, err := r.RegisterPack(context.Background(), runtime.RegisterRequest{
		Call: runtime.Call{Principal: everyone}, Document: []byte(edited), Move: true,
	}); err != nil {
		t.Fatal(err)
	}
	again := r.emit(run.RunID, "Again", "", run.Turn.Token)
	r.restart()
	turn, err := r.GetTurn(context.Background(), ref(run.RunID, everyone))
	if err != nil {
		t.Fatal(err)
	}
	after := r.emit(run.RunID, "Again", "", turn.Token)
	if again.State.Current != "work" || after.State.Current != "work" || after.State.Digest != run.State.Digest {
		t.Fatalf("moved to %s and %s", again.State.Current, after.State.Current)
	}
	if fresh := r.start("s2"); fresh.State.Digest == run.State.Digest {
		t.Fatal("a new run has the old pack")
	}
}

func TestRefusedPacks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	req := runtime.RegisterRequest{Call: runtime.Call{Principal: everyone}, Document: []byte(`{"id": "x"}`)}
	answer, err := r.RegisterPack(ctx, req)
	wantReason(t, err, "PACK_INVALID")
	if answer.Pack != nil || len(answer.Diagnostics) == 0 {
		t.Fatalf("%+v", answer)
	}
	if valid, err := r.ValidatePack(req); err != nil || len(valid.Diagnostics) != len(answer.Diagnostics) {
		t.Fatalf("%+v, %v", valid, err)
	}
	req.Strict = "0.0.0"
	_, err = r.RegisterPack(ctx, req)
	wantReason(t, err, "BAD_PACK_OPTION")
	req.Principal = reader
	_, err = r.RegisterPack(ctx, req)
	wantReason(t, err, "SCOPE_MISSING")
	_, err = r.GetPack(ctx, req.Call, "absent")
	wantReason(t, err, "PACK_NOT_FOUND")
	if err.(*machine.Refusal).Field != "pack" {
		t.Fatalf("field %q", err.(*machine.Refusal).Field)
	}
}
