package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// BenchmarkCheckLargeValues proves runs whose values lie in the value log; b/s are
// bytes of values.
func BenchmarkCheckLargeValues(b *testing.B) {
	const runs, writes, bytes = 60, 15, 64 << 10
	w := newWorld(b, openTemp(b))
	for run := range runs {
		w.start(runID(run))
		for n := range writes {
			w.do(runID(run), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: fmt.Appendf(nil, "%0*d", bytes, n)}}})
		}
	}
	for name, prove := range map[string]func() error{
		"check": func() error {
			_, err := w.store.Check(context.Background(), w.graphs)
			return err
		},
		"verify": func() error {
			return w.store.ProveAll(context.Background(), "", w.graphs, func(_ uint32, run string, p machine.Proof) error {
				if !p.OK() {
					return fmt.Errorf("%s: %+v", run, p)
				}
				return nil
			})
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(runs * writes * bytes)
			for b.Loop() {
				if err := prove(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
