package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// TestLongArtifactsReadTheSame: an appended artifact is always the sum of its writes, independent
// of earlier reads and of their order.
func TestLongArtifactsReadTheSame(t *testing.T) {
	t.Parallel()
	r, counting, run := longRun(t, 400)
	at := func(views *query.Service, seq uint64) map[string]string {
		view, err := views.GetRun(context.Background(), query.GetRunRequest{RunRef: ref(run, everyone), AtSeq: seq, Artifacts: true})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, a := range view.Artifacts {
			out[a.Name] = fmt.Sprintf("%d %s", a.Seq, a.Value)
		}
		return out
	}
	last := r.view(run).State.Seq
	var writes []string
	for seq := uint64(1); seq <= last; seq += 7 {
		writes = writes[:0]
		page, err := counting.Entries(context.Background(), 0, run, 1, machine.Page{})
		for err == nil && len(page) > 0 && page[0].First <= seq {
			for _, entry := range page {
				for _, record := range entry.Records {
					for _, w := range machine.ArtifactWrites(record.Body) {
						if w.Name == "log" && record.Seq <= seq {
							writes = append(writes, string(w.Value))
						}
					}
				}
			}
			end := page[len(page)-1]
			page, err = counting.Entries(context.Background(), 0, run, end.First+uint64(len(end.Records)), machine.Page{})
		}
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(at(r.Views, seq)["log"], " ")
		want := ""
		if len(writes) > 0 {
			want = "[" + strings.Join(writes, ",") + "]"
		}
		if got != want {
			t.Fatalf("at %d: %q, want %q", seq, got, want)
		}
	}
	warm := r.Views
	r.open() // nothing is held any more
	for _, seq := range []uint64{last, last / 2, 3, last - 1, last/2 + 1} {
		if a, b := at(warm, seq), at(r.Views, seq); fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("at %d: held %v, read %v", seq, a, b)
		}
	}
}
