package pawl_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// ledger is the world outside: it takes each idempotency key once.
type ledger struct {
	mu      sync.Mutex
	effects map[string]int
	calls   int
}

func (l *ledger) charge(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.effects[key] == 0 {
		l.effects[key] = l.calls
	}
}

// TestOneEffectOutside (8.5): a tool that fails, or answers too late, after its effect
// is called again; a world that goes by the call's idempotency key has one effect.
func TestOneEffectOutside(t *testing.T) {
	t.Parallel()
	const bounds = `"retry": {"max_attempts": 3}, "tools": {"add": {"attempts": 3, "timeout_sec": 1, "on_unknown": "retry"}}`
	for name, bad := range map[string]pawl.ToolFunc{
		"fails": func(context.Context, *pawl.Step) (json.RawMessage, error) {
			return nil, &pawl.Failure{Code: "LOST", Message: "no answer"}
		},
		"answers too late": func(ctx context.Context, _ *pawl.Step) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ctx := newSidecar(t), testContext(t)
			content := strings.Replace(strings.Replace(pack, `"retry": {"max_attempts": 3}`, bounds, 1), `"1.0.0"`, `"1.1.0"`, 1)
			if _, err := s.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(content)}); err != nil {
				t.Fatal(err)
			}
			var effects ledger
			effects.effects = map[string]int{}
			tool := func(ctx context.Context, st *pawl.Step) (json.RawMessage, error) {
				effects.charge(st.IdempotencyKey())
				if st.Assignment.GetLease().GetAttempt() < 3 {
					return bad(ctx, st)
				}
				return json.RawMessage(`2`), nil
			}
			turn, _ := counting(1, nil)
			stop := s.work(ctx, pawl.WorkerConfig{
				ID: "w", Prompts: map[string]pawl.TurnFunc{"counter": turn}, Tools: map[string]pawl.ToolFunc{"add": tool},
			})
			defer stop()
			run := s.start(ctx)
			if got := s.ended(ctx, run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
				t.Fatalf("the run is %v", got)
			}
			if effects.calls != 3 || len(effects.effects) != 1 || effects.effects[run+"/1"] != 1 {
				t.Errorf("%d calls, effects %v, want 3 and one of %s/1", effects.calls, effects.effects, run)
			}
		})
	}
}
