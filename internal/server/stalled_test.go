package server

import (
	"context"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Readers that stop after their first record, and what they may cost together with
// their clients, which are in this process, too.
const (
	stalledReaders = 300
	stalledValue   = 48 << 10
	stalledMost    = 160 << 20
)

// TestStalledReaders: the heap with hundreds of readers that stopped reading.
func TestStalledReaders(t *testing.T) {
	c := settings(t)
	c.Packs, c.Limits.WatchBytes = []string{"../../test/e2e/testdata/loop.pack.yaml"}, 8<<20
	s := serve(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	// Windows as they are: gRPC's own grow, and the clients would hold what is measured.
	conn, err := grpc.NewClient("passthrough:///"+s.ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	runs := pawlv1.NewRunServiceClient(conn)
	started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		t.Fatal(err)
	}
	turn, value := started.GetTurn(), strings.Repeat("x", stalledValue)
	for range 40 {
		answer, err := runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{
			RunId: started.GetRun().GetRunId(), Event: "Again", TurnToken: turn.GetToken(),
			Artifacts: []*pawlv1.ArtifactWrite{{Name: "mark", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: value}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		turn = answer.GetTurn()
	}
	before := heap()
	for range stalledReaders {
		stream, err := runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	grown := heap() - before
	t.Logf("%d stalled readers take %d MiB", stalledReaders, grown>>20)
	if grown > stalledMost {
		t.Errorf("%d stalled readers take %d MiB, want at most %d", stalledReaders, grown>>20, stalledMost>>20)
	}
	cancel()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// heap is what is in use after a collection, bytes.
func heap() int64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
