package grpcapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// archive is a file format of its own: a JSON object that names a run. What a
// real file holds is tested with the store.
type archive struct{ imported *machine.State }

func (a *archive) Prove(_ context.Context, _ uint32, run string, _ *machine.Graph) (machine.Proof, error) {
	return machine.Proof{Entries: 2, Records: 3, Hash: [32]byte{9}, BadSeq: 4, Detail: "of " + run}, nil
}

func (a *archive) Export(_ context.Context, _ uint32, run string, out io.Writer) error {
	_, err := out.Write(bytes.Repeat([]byte(run[:1]), 600<<10))
	return err
}

func (a *archive) Unpack(in io.Reader) (machine.Export, error) {
	raw, err := io.ReadAll(in)
	if err != nil {
		return machine.Export{}, err
	}
	var x machine.Export
	if err := json.Unmarshal(raw, &x); err != nil {
		return x, &machine.Error{Code: machine.CodeInvalidArgument, Reason: "EXPORT_INVALID", Field: "data", Message: err.Error()}
	}
	return x, nil
}

func (a *archive) Discard(machine.Export) error { return nil }

func (a *archive) Import(_ context.Context, _ uint32, _ machine.Export, _ machine.PackRow, _ *machine.Graph, _ int64) (*machine.State, bool, error) {
	return a.imported, a.imported.Seq == 1, nil
}

// TestForkDiffVerify: the three calls over the wire.
func TestForkDiffVerify(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	started := r.start(ctx)
	run := started.GetRun().GetRunId()
	_, err := r.runs.SetArtifacts(ctx, &pawlv1.SetArtifactsRequest{
		RunId: run, TurnToken: started.GetTurn().GetToken(), Artifacts: []*pawlv1.ArtifactWrite{textWrite("note", "one\ntwo\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	req := &pawlv1.ForkRunRequest{
		RunId: run, AtSeq: 2, RequestId: "f", Artifacts: []*pawlv1.ArtifactWrite{textWrite("note", "one\n2\n")},
		Labels: map[string]string{"why": "repair"}, VariablesJson: `{"goal":"mend"}`,
	}
	fork, err := r.runs.ForkRun(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	copied := fork.GetRun()
	if from := copied.GetForkedFrom(); from.GetRunId() != run || from.GetSeq() != 2 || copied.GetLabels()["why"] != "repair" || copied.GetTotalVisits() != 0 {
		t.Fatalf("fork is %v", copied)
	}
	origin := fork.GetRecord().GetOrigin()
	if origin.GetRunId() != run || origin.GetState() != copied.GetState() || len(origin.GetArtifactsWritten()) != 1 || fork.GetTurn().GetToken() == "" {
		t.Fatalf("origin is %v, turn %v", fork.GetRecord(), fork.GetTurn())
	}
	again, err := r.runs.ForkRun(ctx, req)
	if err != nil || !again.GetDuplicate() || again.GetRun().GetRunId() != copied.GetRunId() {
		t.Fatalf("repeated: %v, %v", again, err)
	}
	diff, err := r.runs.DiffRuns(ctx, &pawlv1.DiffRunsRequest{RunId: run, OtherRunId: copied.GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	if a := diff.GetArtifacts(); len(a) != 1 || a[0].GetKind() != pawlv1.ChangeKind_CHANGE_KIND_CHANGED || !bytes.Contains([]byte(a[0].GetText()), []byte("-two\n+2\n")) {
		t.Fatalf("artifacts differ by %v", diff.GetArtifacts())
	}
	if v := diff.GetVariables(); len(v) != 1 || v[0].GetPath() != "/goal" || diff.GetCommonPath() != 1 || len(diff.GetOtherPath()) != 0 {
		t.Fatalf("diff is %v", diff)
	}
	proof, err := r.runs.VerifyRun(ctx, &pawlv1.VerifyRunRequest{RunId: run})
	if err != nil || proof.GetOk() || proof.GetBadSeq() != 4 || proof.GetDetail() != "of "+run || proof.GetHash()[0] != 9 {
		t.Fatalf("proof is %v, %v", proof, err)
	}
}

func textWrite(name, text string) *pawlv1.ArtifactWrite {
	return &pawlv1.ArtifactWrite{Name: name, Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: text}}}
}

// TestListSnapshots: the list has the run as it was at each record, with the values of that time.
func TestListSnapshots(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	started := r.start(ctx)
	run, token := started.GetRun().GetRunId(), started.GetTurn().GetToken()
	for _, text := range []string{"a", "b", "c"} {
		if _, err := r.runs.SetArtifacts(ctx, &pawlv1.SetArtifactsRequest{RunId: run, TurnToken: token, Artifacts: []*pawlv1.ArtifactWrite{textWrite("note", text)}}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{
		RunId: run, Snapshots: true, AfterSeq: 1, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_ARTIFACTS_SET},
	})
	if err != nil || len(page.GetSnapshots()) != 3 || len(page.GetRecords()) != 3 {
		t.Fatalf("page is %v, %v", page, err)
	}
	for i, snapshot := range page.GetSnapshots() {
		want := string(rune('a' + i))
		if got := snapshot.GetArtifacts()[0].GetValue().GetText(); got != want || snapshot.GetRun().GetSeq() != page.GetRecords()[i].GetSeq() {
			t.Errorf("snapshot %d has %q of record %d", i, got, snapshot.GetRun().GetSeq())
		}
	}
	plain, err := r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run})
	if err != nil || len(plain.GetSnapshots()) != 0 {
		t.Fatalf("unasked: %v, %v", plain, err)
	}
}

// TestExportIsInPieces: a file larger than a message is sent in several.
func TestExportIsInPieces(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	run := r.start(ctx).GetRun().GetRunId()
	stream, err := r.runs.ExportRun(ctx, &pawlv1.ExportRunRequest{RunId: run})
	if err != nil {
		t.Fatal(err)
	}
	total, most := 0, 0
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		total, most = total+len(piece.GetData()), max(most, len(piece.GetData()))
	}
	if total != 600<<10 || most > exportPiece {
		t.Fatalf("%d bytes in pieces of %d", total, most)
	}
	none, err := r.runs.ExportRun(ctx, &pawlv1.ExportRunRequest{RunId: "01J00000000000000000000000"})
	if err == nil {
		_, err = none.Recv()
	}
	wantError(t, err, codes.NotFound, "RUN_NOT_FOUND")
}

// TestImportOfNothing: data that is no export is refused, and so is a stream without data.
func TestImportOfNothing(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	stream, err := r.runs.ImportRun(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"{", "", "no"} {
		if err := stream.Send(&pawlv1.ImportRunRequest{Data: []byte(piece)}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = stream.CloseAndRecv()
	wantError(t, err, codes.InvalidArgument, "EXPORT_INVALID")
	empty, err := r.runs.ImportRun(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = empty.CloseAndRecv()
	wantError(t, err, codes.InvalidArgument, "REQUEST_REQUIRED")
}
