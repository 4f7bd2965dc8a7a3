package executor_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// activeCounter counts who is at the model at once.
type activeCounter struct {
	mu                sync.Mutex
	now, maxActive    int
	arrived, released chan struct{}
}

func (b *activeCounter) visit() {
	b.mu.Lock()
	b.now++
	b.maxActive = max(b.maxActive, b.now)
	b.mu.Unlock()
	b.arrived <- struct{}{}
	<-b.released
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now--
}

// limited is a sidecar with a model of the operator's limits.
func limited(t *testing.T, limits, pack string, answer func(n int, asked endpoint.Request) endpoint.Answer) *rig {
	t.Helper()
	model := endpoint.New(t, answer)
	c := config.Default()
	c.Models, c.AllowTools, c.DrainTimeout = []string{"gpt=" + model.URL}, []string{"*"}, time.Second
	c.CallLimits = filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(c.CallLimits, []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	r := local(t, c, pack)
	r.model = model
	return r
}

// exitAnswer is the answer that leads a run of desk to its end.
func exitAnswer(asked endpoint.Request) endpoint.Answer {
	if tools, _ := asked.Body["tools"].([]any); len(tools) > 0 {
		return doneAnswer()
	}
	return endpoint.Answer{Text: "Reported."}
}

// TestConcurrentCallsAreLimited: as many calls of a model are open as the operator allows;
// those that wait are asked once there is a place, and all runs end.
func TestConcurrentCallsAreLimited(t *testing.T) {
	t.Parallel()
	b := &activeCounter{arrived: make(chan struct{}, 100), released: make(chan struct{})}
	r := limited(t, "limits: [{id: gpt, key: model, concurrent: 2}]", desk(""), func(_ int, asked endpoint.Request) endpoint.Answer {
		b.visit()
		return exitAnswer(asked)
	})
	const n = 6
	runs := make([]string, n)
	for i := range runs {
		runs[i] = r.start()
	}
	<-b.arrived
	<-b.arrived
	for range 2*n - 2 {
		b.released <- struct{}{}
		<-b.arrived
	}
	close(b.released)
	for _, run := range runs {
		if got := r.ended(run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
			t.Errorf("%v: %s", got, r.records(run))
		}
	}
	if b.maxActive != 2 {
		t.Errorf("%d calls were open at once, 2 may be", b.maxActive)
	}
}
