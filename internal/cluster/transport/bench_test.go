package transport_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// BenchmarkUnary measures a call over the whole path of a client: at the node that has the store, and
// through another node. The backend answers at once, so only the path counts.
func BenchmarkUnary(b *testing.B) {
	c := newTown()
	owner, other := c.node(b, "a"), c.node(b, "b")
	home := newHouse()
	home.brief = true
	answer := &pawlv1.EmitEventResponse{}
	home.unary = func(context.Context, string, any) (any, error) { return answer, nil }
	owner.ownPartitions(home)
	req := &pawlv1.EmitEventRequest{RunId: "01J00000000000000000000000", Event: "Event", EventId: "id"}
	for _, at := range []struct {
		name string
		node *member
	}{{"local", owner}, {"forwarded", other}} {
		for _, callers := range []int{1, 16} {
			b.Run(at.name+map[int]string{1: "/one", 16: "/sixteen"}[callers], func(b *testing.B) {
				client := pawlv1.NewRunServiceClient(at.node.conn)
				took := make([][]time.Duration, callers)
				b.ReportAllocs()
				b.ResetTimer()
				var all sync.WaitGroup
				for i := range callers {
					all.Go(func() {
						for range max(1, b.N/callers) {
							began := time.Now()
							if _, err := client.EmitEvent(b.Context(), req); err != nil {
								b.Error(err)
								return
							}
							took[i] = append(took[i], time.Since(began))
						}
					})
				}
				all.Wait()
				b.StopTimer()
				times := slices.Concat(took...)
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
			})
		}
	}
}
