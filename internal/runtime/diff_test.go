package runtime_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
)

func (r *rig) diff(req timetravel.DiffRequest) timetravel.Diff {
	r.t.Helper()
	d, err := r.DiffRuns(context.Background(), req)
	if err != nil {
		r.t.Fatalf("DiffRuns: %v", err)
	}
	return d
}

// pathOf is a way as words.
func pathOf(path []timetravel.PathStep) []string {
	var words []string
	for _, step := range path {
		words = append(words, step.Event+">"+step.State)
	}
	return words
}

// TestDiffOfTwoPoints: everything that is compared, in both directions.
func TestDiffOfTwoPoints(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, before := r.source()
	d := r.diff(timetravel.DiffRequest{RunRef: ref(run, everyone), Seq: 1, OtherSeq: before})
	if d.Common != 1 || len(d.BasePath) != 0 || !reflect.DeepEqual(pathOf(d.OtherPath), []string{"Again>work"}) {
		t.Fatalf("common %d, %v, %v", d.Common, d.BasePath, d.OtherPath)
	}
	if !reflect.DeepEqual(d.Visits, []machine.CountChange{{Name: "work", Base: 1, Other: 2}}) ||
		!reflect.DeepEqual(d.Edges, []machine.CountChange{{Name: "work.Again", Other: 1}}) {
		t.Fatalf("visits %v, edges %v", d.Visits, d.Edges)
	}
	if len(d.Artifacts) != 2 || d.Artifacts[0].Kind != timetravel.Added || d.Artifacts[1].OtherBytes != 5 || len(d.Variables) != 0 {
		t.Fatalf("artifacts %+v, variables %v", d.Artifacts, d.Variables)
	}
	back := r.diff(timetravel.DiffRequest{RunRef: ref(run, everyone), Seq: before, OtherSeq: 1})
	if back.Artifacts[0].Kind != timetravel.Removed || len(back.BasePath) != 1 {
		t.Fatalf("backwards: %+v", back)
	}
	same := r.diff(timetravel.DiffRequest{RunRef: ref(run, everyone), Seq: before, OtherSeq: before})
	if same.Common != 2 || len(same.Artifacts)+len(same.Visits)+len(same.Budgets)+len(same.Edges) != 0 {
		t.Fatalf("with itself: %+v", same)
	}
}

// TestDiffOfAForkAndItsSource: the fork's way begins with the source's; JSON is
// compared by pointers, text line by line.
func TestDiffOfAForkAndItsSource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, before := r.source()
	req := forkRequest(run, before)
	req.Variables = []byte(`{"goal":"mend"}`)
	req.Artifacts = []machine.ArtifactWrite{{Name: "log", Value: []byte(`[{"n":1.0,"a/b~":[1]},2,3]`)}, {Name: "note", Value: []byte("draft\nmore\n")}}
	fork := r.fork(req)
	r.emit(fork.RunID, "Finish", "", fork.Turn.Token)
	d := r.diff(timetravel.DiffRequest{RunRef: ref(run, everyone), Other: fork.RunID})
	if d.Common != 2 || len(d.BasePath) != 0 || !reflect.DeepEqual(pathOf(d.OtherPath), []string{"Finish>done"}) || d.OtherPath[0].RunID != fork.RunID {
		t.Fatalf("common %d, %v, %v", d.Common, d.BasePath, d.OtherPath)
	}
	want := []timetravel.ValueChange{
		{Path: "/0/a~1b~0", Kind: timetravel.Added, Other: []byte("[1]")},
		{Path: "/0/n", Kind: timetravel.Changed, Base: []byte("1"), Other: []byte("1.0")},
		{Path: "/2", Kind: timetravel.Added, Other: []byte("3")},
	}
	if !reflect.DeepEqual(d.Artifacts[0].JSON, want) {
		t.Fatalf("log: %+v", d.Artifacts[0].JSON)
	}
	if text := d.Artifacts[1].Text; !strings.Contains(text, "-draft\n") || !strings.Contains(text, "+draft\n+more\n") {
		t.Fatalf("note: %q", text)
	}
	if len(d.Variables) != 1 || d.Variables[0].Path != "/goal" || string(d.Variables[0].Other) != `"mend"` {
		t.Fatalf("variables: %+v", d.Variables)
	}
}

// TestDiffIsBounded: too many differences are cut and said to be.
func TestDiffIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, before := r.source()
	req := forkRequest(run, before)
	req.Artifacts = []machine.ArtifactWrite{
		{Name: "log", Value: []byte("[" + strings.Repeat("1,", 5000) + "1]")}, {Name: "note", Value: []byte(strings.Repeat("ä\n", 20_000))},
	}
	fork := r.fork(req)
	d := r.diff(timetravel.DiffRequest{RunRef: ref(run, everyone), Seq: before, Other: fork.RunID})
	if log := d.Artifacts[0]; len(log.JSON) != 1000 || !log.Truncated {
		t.Fatalf("log: %d changes, truncated %v", len(log.JSON), log.Truncated)
	}
	if note := d.Artifacts[1]; len(note.Text) > 256<<10 || note.Truncated {
		t.Fatalf("note: %d bytes, truncated %v", len(note.Text), note.Truncated)
	}
}

// TestDiffRefusals: points that are not there.
func TestDiffRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, before := r.source()
	for _, tt := range []struct {
		req    timetravel.DiffRequest
		reason string
	}{
		{timetravel.DiffRequest{RunRef: ref(run, everyone), Seq: before + 50}, "RECORD_NOT_FOUND"},
		{timetravel.DiffRequest{RunRef: ref(run, everyone), OtherSeq: before + 50}, "RECORD_NOT_FOUND"},
		{timetravel.DiffRequest{RunRef: ref(run, everyone), Other: "01J00000000000000000000000"}, "RUN_NOT_FOUND"},
		{timetravel.DiffRequest{RunRef: ref(run, nobody)}, "RUN_NOT_FOUND"},
		{timetravel.DiffRequest{RunRef: ref(run, approver)}, "SCOPE_MISSING"},
	} {
		_, err := r.DiffRuns(context.Background(), tt.req)
		wantReason(t, err, tt.reason)
	}
}

// TestArchiveOff: without one nothing is proven, exported or imported.
func TestArchiveOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s").RunID
	_, err := r.VerifyRun(context.Background(), ref(run, everyone))
	wantReason(t, err, "ARCHIVE_OFF")
	wantReason(t, r.ExportRun(context.Background(), ref(run, everyone), nil), "ARCHIVE_OFF")
	_, _, err = r.ImportRun(context.Background(), runtime.Call{Principal: everyone}, strings.NewReader(""))
	wantReason(t, err, "ARCHIVE_OFF")
	_, _, err = r.ImportRun(context.Background(), runtime.Call{Principal: driver}, strings.NewReader(""))
	wantReason(t, err, "SCOPE_MISSING")
}
