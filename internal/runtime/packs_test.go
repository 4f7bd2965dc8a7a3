package runtime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/services"
)

func TestPacks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	call := runtime.Call{Principal: everyone}
	register := func(document string, change func(*packs.RegisterRequest)) (packs.PackAnswer, error) {
		req := packs.RegisterRequest{Call: call, Document: []byte(document)}
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
	if _, err := register(second, func(q *packs.RegisterRequest) { q.KeepDefault = true }); err != nil {
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
	if _, err := register(other, func(q *packs.RegisterRequest) { q.Move = true }); err != nil {
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

// TestARunKeepsItsDigest: an edited pack under the same name never changes a run that is in
// progress, nor does a restart.
func TestARunKeepsItsDigest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	edited := strings.Replace(loopPack, `"Again": "work"`, `"Again": "gate"`, 1)
	if _, err := r.RegisterPack(context.Background(), packs.RegisterRequest{
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
	req := packs.RegisterRequest{Call: runtime.Call{Principal: everyone}, Document: []byte(`{"id": "x"}`)}
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
	if err.(*machine.Error).Field != "pack" {
		t.Fatalf("field %q", err.(*machine.Error).Field)
	}
}

// TestRequireBounded: the caller or the operator may refuse packs with loops that have no bound of
// their own. A wall time is no bound of a loop.
func TestRequireBounded(t *testing.T) {
	t.Parallel()
	bounded := strings.Replace(loopPack, `"budget": {`, `"budget": {"max_total_visits": 9, `, 1)
	for _, operator := range []bool{false, true} {
		r := newRig(t)
		r.cfg.Pack.RequireBounded = operator
		r.open()
		register := func(document string, asked bool) error {
			_, err := r.RegisterPack(context.Background(), packs.RegisterRequest{
				Call: runtime.Call{Principal: everyone}, Document: []byte(document), RequireBounded: asked, Move: true,
			})
			return err
		}
		wantReason(t, register(loopPack, true), "PACK_INVALID")
		if err := register(bounded, true); err != nil {
			t.Errorf("a bounded pack, operator %v: %v", operator, err)
		}
		if err := register(loopPack, false); (err != nil) != operator {
			t.Errorf("not asked for, operator %v: %v", operator, err)
		}
		// A pack that was registered before the operator's setting can still be run.
		r.start("s1")
	}
}

// TestOperatorsWallTime: the operator's default applies if neither the pack nor the starter sets a
// wall time. The operator's maximum always applies.
func TestOperatorsWallTime(t *testing.T) {
	t.Parallel()
	silent := strings.Replace(loopPack, `"budget": {"max_wall_time_sec": 3600},`, "", 1)
	for name, c := range map[string]struct {
		document                    string
		asked, byDefault, max, want time.Duration
	}{
		"nobody says":                    {silent, 0, 0, 0, 0},
		"the default":                    {silent, 0, time.Minute, 0, time.Minute},
		"the pack before the default":    {loopPack, 0, time.Minute, 0, time.Hour},
		"the starter before the default": {silent, 2 * time.Minute, time.Minute, 0, 2 * time.Minute},
		"the ceiling for nobody":         {silent, 0, 0, 10 * time.Minute, 10 * time.Minute},
		"the ceiling over the pack":      {loopPack, 0, 0, 10 * time.Minute, 10 * time.Minute},
		"the ceiling over the starter":   {silent, time.Hour, 0, 10 * time.Minute, 10 * time.Minute},
		"the starter below the ceiling":  {loopPack, time.Minute, 0, 10 * time.Minute, time.Minute},
		"the default below the ceiling":  {silent, 0, time.Minute, 10 * time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(cfg *services.Config) { cfg.DefaultWallTime, cfg.MaxWallTime = c.byDefault, c.max })
			if _, err := r.RegisterPack(context.Background(), packs.RegisterRequest{
				Call: runtime.Call{Principal: everyone}, Document: []byte(c.document), Move: true,
			}); err != nil {
				t.Fatal(err)
			}
			req := startRequest("s1")
			req.MaxWallTime = c.asked
			s := r.startWith(req).State
			got := time.Duration(0)
			if s.Deadline != 0 {
				got = time.Duration(s.Deadline - s.CreatedAt)
			}
			if got != c.want {
				t.Errorf("wall time %s, want %s", got, c.want)
			}
		})
	}
}
