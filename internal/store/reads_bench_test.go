package store

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// BenchmarkReads reads what the engine asks for most; allocations are per call.
func BenchmarkReads(b *testing.B) {
	w := newWorld(b, openTemp(b))
	for n := range 50 {
		w.live(runID(n))
	}
	s, ctx, run := w.store, context.Background(), runID(7)
	if _, err := s.PutPack(ctx, 0, putOf("codegen", "1.0.0", true)); err != nil {
		b.Fatal(err)
	}
	for _, read := range []struct {
		name string
		call func() error
	}{
		{"Head", func() error { _, err := s.Head(ctx, 0, run); return err }},
		{"Entry", func() error { _, err := s.Entry(ctx, 0, run, 5); return err }},
		{"Entries", func() error { _, err := s.Entries(ctx, 0, run, 4, machine.Page{}); return err }},
		{"Journal", func() error { _, _, err := s.Journal(ctx, 0, 0, machine.Page{}); return err }},
		{"Consumed", func() error {
			_, _, err := s.FindRequestID(ctx, 0, machine.Dedupe{Scope: machine.PerRun, Kind: machine.CmdCompleteTurn, RunID: run, ID: "id-9"})
			return err
		}},
		{"ArtifactVersions", func() error { _, err := s.ArtifactVersions(ctx, 0, run, "report", 1<<60, true); return err }},
		{"MessageRows", func() error { _, err := s.MessageRows(ctx, 0, run, "plan", 0, 2); return err }},
		{"Checkpoint", func() error { _, err := s.Checkpoint(ctx, 0, run, 1<<60); return err }},
		{"DueTimers", func() error { _, _, err := s.DueTimers(ctx, math.MaxInt64, 10); return err }},
		{"ListRuns", func() error { _, _, err := s.ListRuns(ctx, 0, machine.RunFilter{}, "", 20); return err }},
		{"ListRunsByLabel", func() error {
			f := machine.RunFilter{Labels: []machine.Label{{Key: "team", Value: "core"}}, Status: []machine.Status{machine.Running}}
			_, _, err := s.ListRuns(ctx, 0, f, "", 20)
			return err
		}},
		{"Pack", func() error { _, err := s.Pack(ctx, 0, "codegen@1.0.0"); return err }},
		{"RunBytes", func() error { _, err := s.RunBytes(ctx, 0, run); return err }},
		{"Check", func() error { _, err := s.Check(ctx, nil); return err }},
	} {
		b.Run(read.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := read.call(); err != nil {
					b.Fatal(fmt.Errorf("%s: %w", read.name, err))
				}
			}
		})
	}
}
