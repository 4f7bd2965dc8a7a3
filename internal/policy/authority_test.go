package policy_test

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/policy"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const (
		driver   = policy.RunsWrite | policy.RunsRead
		approver = policy.EventsExternal
	)
	tests := []struct {
		name    string
		ask     policy.Ask
		scopes  policy.Scopes
		outside bool
		reason  string
	}{
		{name: "internal event with the token", ask: policy.Ask{Act: policy.Emit, Token: policy.TokenHeld}, scopes: driver},
		{name: "internal event without a token", ask: policy.Ask{Act: policy.Emit}, scopes: policy.AllScopes, reason: "TURN_TOKEN_REQUIRED"},
		{name: "internal event with a stale token", ask: policy.Ask{Act: policy.Emit, Token: policy.TokenStale}, scopes: policy.AllScopes, reason: "TURN_TOKEN_STALE"},
		{name: "the token alone is not the right to write", ask: policy.Ask{Act: policy.Emit, Token: policy.TokenHeld}, scopes: policy.RunsRead, reason: "SCOPE_MISSING"},
		{name: "external event by scope", ask: policy.Ask{Act: policy.Emit, Orchestration: policy.External}, scopes: approver, outside: true},
		{name: "external event by token", ask: policy.Ask{Act: policy.Emit, Orchestration: policy.External, Token: policy.TokenHeld}, scopes: driver, reason: "SCOPE_MISSING"},
		{name: "hybrid event by scope", ask: policy.Ask{Act: policy.Emit, Orchestration: policy.Hybrid}, scopes: approver, outside: true},
		{name: "hybrid event by token", ask: policy.Ask{Act: policy.Emit, Orchestration: policy.Hybrid, Token: policy.TokenHeld}, scopes: policy.AnonymousScopes},
		{name: "hybrid event with a stale token stays fenced", ask: policy.Ask{Act: policy.Emit, Orchestration: policy.Hybrid, Token: policy.TokenStale}, scopes: policy.AllScopes, reason: "TURN_TOKEN_STALE"},
		{name: "hybrid event by neither", ask: policy.Ask{Act: policy.Emit, Orchestration: policy.Hybrid}, scopes: driver, reason: "TURN_TOKEN_REQUIRED"},
		{name: "hybrid event of a leased run by scope", ask: policy.Ask{Act: policy.Emit, Orchestration: policy.Hybrid, Leased: true}, scopes: approver, outside: true},
		{name: "hybrid completion is the holder's", ask: policy.Ask{Act: policy.Complete, Orchestration: policy.Hybrid}, scopes: approver, reason: "TURN_TOKEN_REQUIRED"},
		{name: "writes follow events", ask: policy.Ask{Act: policy.Write, Orchestration: policy.Hybrid}, scopes: approver, outside: true},
		{name: "external completion by scope", ask: policy.Ask{Act: policy.Complete, Orchestration: policy.External, Leased: true}, scopes: approver, outside: true},
		{name: "external completion without scope", ask: policy.Ask{Act: policy.Complete, Orchestration: policy.External}, scopes: driver, reason: "SCOPE_MISSING"},
		{name: "leased turn by its worker", ask: policy.Ask{Act: policy.Complete, Leased: true, HoldsLease: true}, scopes: policy.Work},
		{name: "leased turn by a caller", ask: policy.Ask{Act: policy.Complete, Leased: true}, scopes: policy.AllScopes, reason: "TURN_LEASED"},
		{name: "leased turn, a token changes nothing", ask: policy.Ask{Act: policy.Execute, Leased: true, Token: policy.TokenHeld}, scopes: policy.AllScopes, reason: "TURN_LEASED"},
		{name: "fetch", ask: policy.Ask{Act: policy.Fetch}, scopes: driver},
		{name: "fetch without the right to write", ask: policy.Ask{Act: policy.Fetch}, scopes: policy.RunsRead, reason: "SCOPE_MISSING"},
		{name: "fetch a leased turn", ask: policy.Ask{Act: policy.Fetch, Leased: true}, scopes: policy.AllScopes, reason: "TURN_LEASED"},
		{name: "fetch in an external state", ask: policy.Ask{Act: policy.Fetch, Orchestration: policy.External, Leased: true}, scopes: approver, outside: true},
		{name: "resolve by token", ask: policy.Ask{Act: policy.Resolve, Token: policy.TokenHeld}, scopes: driver},
		{name: "resolve by admin with a stale token", ask: policy.Ask{Act: policy.Resolve, Token: policy.TokenStale}, scopes: policy.Admin},
		{name: "resolve by lease", ask: policy.Ask{Act: policy.Resolve, HoldsLease: true, Leased: true}, scopes: policy.Work},
		{name: "resolve with a stale token", ask: policy.Ask{Act: policy.Resolve, Token: policy.TokenStale}, scopes: driver, reason: "TURN_TOKEN_STALE"},
		{name: "resolve by anyone else", ask: policy.Ask{Act: policy.Resolve}, scopes: policy.AnonymousScopes, reason: "STEP_NOT_HELD"},
		{name: "tell by token", ask: policy.Ask{Act: policy.AnswerModel, Token: policy.TokenHeld}, scopes: driver},
		{name: "tell with a stale token what was consumed", ask: policy.Ask{Act: policy.AnswerModel, Token: policy.TokenStale}, scopes: driver},
		{name: "tell by a lease that is gone", ask: policy.Ask{Act: policy.AnswerModel, Token: policy.TokenStale}, scopes: policy.Work},
		{name: "tell in a state that others move", ask: policy.Ask{Act: policy.AnswerModel, Orchestration: policy.External, Token: policy.TokenStale}, scopes: driver},
		{name: "tell without a token", ask: policy.Ask{Act: policy.AnswerModel}, scopes: policy.AllScopes, reason: "TURN_TOKEN_REQUIRED"},
		{name: "tell without the right", ask: policy.Ask{Act: policy.AnswerModel, Token: policy.TokenStale}, scopes: policy.RunsRead, reason: "TURN_TOKEN_STALE"},
		{name: "tell of a leased turn by a caller", ask: policy.Ask{Act: policy.AnswerModel, Leased: true, Token: policy.TokenStale}, scopes: policy.AllScopes, reason: "TURN_LEASED"},
		{name: "drive", ask: policy.Ask{Act: policy.Drive, Leased: true}, scopes: driver},
		{name: "drive without the right", ask: policy.Ask{Act: policy.Drive}, scopes: policy.RunsRead | approver, reason: "SCOPE_MISSING"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.ask.Principal = policy.Principal{Subject: "p", Scopes: tt.scopes}
			verdict, err := policy.Decide(tt.ask)
			if tt.reason == "" {
				if err != nil || verdict.Outside != tt.outside {
					t.Fatalf("Decide = %+v, %v; want outside %v", verdict, err, tt.outside)
				}
				return
			}
			var denied *policy.Denied
			if !errors.As(err, &denied) || denied.Reason != tt.reason {
				t.Fatalf("Decide = %v, want %s", err, tt.reason)
			}
			if denied.Message == "" || denied.Error() == "" {
				t.Fatal("a denial without words")
			}
		})
	}
}

func TestRequire(t *testing.T) {
	t.Parallel()
	reader := policy.Principal{Subject: "r", Scopes: policy.RunsRead}
	if err := policy.Require(reader, policy.RunsRead|policy.RunsWrite); err != nil {
		t.Fatal(err)
	}
	var denied *policy.Denied
	if err := policy.Require(reader, policy.PacksWrite); !errors.As(err, &denied) || denied.Scopes != policy.PacksWrite {
		t.Fatalf("Require = %v", err)
	}
}
