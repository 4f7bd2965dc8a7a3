package server

import (
	"os"
	"path/filepath"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestTraceGoesOnAfterRestart: the spans of a run over a restart are one trace, and
// those that a process committed but, by its position, did not export are exported by
// the next one under the same ids.
func TestTraceGoesOnAfterRestart(t *testing.T) {
	t.Parallel()
	collects := newCollector(t)
	c := settings(t)
	c.OTLPEndpoint, c.TraceSample = collects.url, 1
	pack := filepath.Join(t.TempDir(), "seam.json")
	if err := os.WriteFile(pack, []byte(seamPack), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Packs = []string{pack}
	s := serve(t, c)
	runs := pawlv1.NewRunServiceClient(dial(t, s.ready.GRPC))
	started, err := runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "seam", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		t.Fatal(err)
	}
	run := started.GetRun().GetRunId()
	if _, err := runs.EmitEvent(t.Context(), &pawlv1.EmitEventRequest{RunId: run, Event: "Done", TurnToken: started.GetTurn().GetToken()}); err != nil {
		t.Fatal(err)
	}
	before := collects.await(t, "visit work", 1)[0]
	s.stop()
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	// As a process leaves it that died before it had exported anything.
	if err := os.WriteFile(filepath.Join(c.Data, "traces.cursor"), []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := serveToEnd(t, c)
	runs = pawlv1.NewRunServiceClient(dial(t, again.ready.GRPC))
	repeated := collects.await(t, "visit work", 2)[1]
	if string(repeated.GetSpanId()) != string(before.GetSpanId()) || repeated.GetEndTimeUnixNano() != before.GetEndTimeUnixNano() {
		t.Errorf("the span is %v, was %v", repeated, before)
	}
	if _, err := runs.CancelRun(t.Context(), &pawlv1.CancelRunRequest{RunId: run}); err != nil {
		t.Fatal(err)
	}
	root, visit := collects.await(t, "run seam", 1)[0], collects.await(t, "visit done", 1)[0]
	for _, span := range []*tracepb.Span{visit, before} {
		if string(span.GetTraceId()) != string(root.GetTraceId()) || string(span.GetParentSpanId()) != string(root.GetSpanId()) {
			t.Errorf("%v is not below %v", span, root)
		}
	}
	if len(root.GetParentSpanId()) != 0 || root.GetStartTimeUnixNano() > before.GetStartTimeUnixNano() {
		t.Errorf("root %v", root)
	}
}
