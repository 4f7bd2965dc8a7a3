package calllimit

import (
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// TestOfBothOrOfNone: a call that its namespace has no room for costs its caller none, also
// where the namespace is known only later.
func TestOfBothOrOfNone(t *testing.T) {
	t.Parallel()
	book := quota.New(map[string]uint32{"default": 0, "red": 1})
	book.Replace(&quota.Table{Namespace: quota.Bounds{quota.Calls: 1}})
	l := New(0.001, book) // one call, and the next in a quarter of an hour
	for n := 0; ; n++ {
		for l.OfSpace(t.Context(), "red") == nil {
		}
		ctx := auth.WithCaller(t.Context(), &auth.Caller{Principal: runtime.Principal{Subject: fmt.Sprint("caller-", n)}})
		entered, err := l.Enter(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if l.OfSpace(entered, "red") == nil {
			continue // A second has gone by: with another caller.
		}
		if _, err := l.Enter(ctx); err != nil {
			t.Errorf("what the namespace refused cost its caller a call: %v", err)
		}
		return
	}
}

// TestTheSpeakerIsCharged: what is said in another's name is charged to the principal that called.
func TestTheSpeakerIsCharged(t *testing.T) {
	t.Parallel()
	l := New(0.001, quota.New(map[string]uint32{"default": 0}))
	for n, caller := range []runtime.Principal{
		{Subject: "bridge"}, {Subject: "dave", Chain: []string{"bridge"}}, {Subject: "dave", Chain: []string{"bridge", "far"}}, {Subject: "dave"},
	} {
		_, err := l.Enter(auth.WithCaller(t.Context(), &auth.Caller{Principal: caller}))
		if charged := err == nil; charged != (caller.Speaker() != "bridge" || n == 0) {
			t.Errorf("%s, call %d: %v", caller.Name(), n+1, err)
		}
	}
}
