package e2e

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

// values are all texts that the run of servedBy received and produced.
var values = slices.Concat(secrets, plainValues)

// leftOf returns everything that calls return about an erased run, as JSON. Refusals must have the
// right type.
func leftOf(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, run string) string {
	t.Helper()
	var all strings.Builder
	keep := func(m proto.Message, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		data, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	got, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run, IncludeArtifacts: true, IncludeVariables: true})
	keep(got, err)
	if got.GetRun().GetErased().GetReason() != "the subject asked" || got.GetVariablesJson() != "" || got.GetRun().GetTotalVisits() != 2 {
		t.Errorf("the run: %v", got)
	}
	list, err := runs.ListRuns(ctx, &pawlv1.ListRunsRequest{})
	keep(list, err)
	records, err := runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, Kinds: play.EveryKind(), Snapshots: true})
	keep(records, err)
	if n := len(records.GetRecords()); n < 8 || uint64(n) != got.GetRun().GetSeq() {
		t.Errorf("%d records are left of %d", n, got.GetRun().GetSeq())
	}
	events := 0
	stream, err := runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{RunId: run, Kinds: play.EveryKind()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records.GetRecords() {
		item, err := stream.Recv()
		keep(item, err)
		if !r.GetErased() || !item.GetRecord().GetErased() {
			t.Errorf("record %d is not marked", r.GetSeq())
		}
		if r.GetTransition().GetEvent() == "Again" {
			events++
		}
	}
	if events != 1 {
		t.Errorf("%d events Again are left", events)
	}
	verified, err := runs.VerifyRun(ctx, &pawlv1.VerifyRunRequest{RunId: run})
	keep(verified, err)
	if !verified.GetOk() || !verified.GetErased() || uint64(verified.GetRecords()) != got.GetRun().GetSeq() {
		t.Errorf("the proof: %v", verified)
	}
	return all.String()
}

// refusedOf asks for the values of an erased run in every way.
func refusedOf(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, run string) {
	t.Helper()
	errs := map[string]error{}
	_, errs["GetRun of before"] = runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run, AtSeq: 2})
	_, errs["ShowTurn"] = runs.ShowTurn(ctx, &pawlv1.ShowTurnRequest{RunId: run, TurnSeq: 1})
	_, errs["DiffRuns"] = runs.DiffRuns(ctx, &pawlv1.DiffRunsRequest{RunId: run, Seq: 1})
	_, errs["ForkRun"] = runs.ForkRun(ctx, &pawlv1.ForkRunRequest{RunId: run, AtSeq: 1})
	_, errs["CompleteTurn, repeated"] = runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{RunId: run, TurnSeq: 1, Attempt: 1, RequestId: "c"})
	_, errs["StartRun, repeated"] = runs.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: "erasable", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: "start of erasable", VariablesJson: `{"account":"a","city":"c"}`,
	})
	export, err := runs.ExportRun(ctx, &pawlv1.ExportRunRequest{RunId: run})
	if err == nil {
		_, err = export.Recv()
	}
	errs["ExportRun"] = err
	for what, err := range errs {
		if play.Reason(err) != "RUN_ERASED" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// filesHolding are the words that stand in any file below a directory.
func filesHolding(t *testing.T, dir string, words []string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, word := range words {
			if bytes.Contains(data, []byte(word)) {
				found = append(found, filepath.Base(path)+": "+word)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestEraseRun checks that every reader of an erased run gets what remains, with a mark, and that
// calls that would return a value are refused. The hash chain is the same and is verified. With and
// without kills, no file contains a value, and the run of another pack keeps all values.
func TestEraseRun(t *testing.T) {
	t.Parallel()
	s := newSidecar(t, "--pack", "testdata/erasable.pack.yaml", "--pack", "testdata/loop.pack.yaml", "--metrics", "127.0.0.1:0", "--allow-tool", "*")
	ctx := deadline(t, 5*patience)
	s.start()
	runs := s.runs()
	run := servedBy(ctx, t, runs, "erasable")
	if told := readAll(ctx, t, runs, run); len(holding(told, values)) != len(values) {
		t.Fatalf("before: only %v is told", holding(told, values))
	}
	erase := &pawlv1.EraseRunRequest{RunId: run, Reason: "the subject asked"}
	if _, err := runs.EraseRun(ctx, erase); play.Reason(err) != "RUN_NOT_ENDED" {
		t.Errorf("a run that goes on: %v", err)
	}
	if export, err := runs.ExportRun(ctx, &pawlv1.ExportRunRequest{RunId: run}); err != nil {
		t.Error(err)
	} else if _, err = export.Recv(); play.Reason(err) != "RUN_ERASABLE" {
		t.Errorf("a file of a run that can be erased: %v", err)
	}
	if _, err := runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run, Note: "s3cret-note"}); err != nil {
		t.Fatal(err)
	}
	open := endedRun(ctx, t, runs, "open")
	if _, err := runs.EraseRun(ctx, &pawlv1.EraseRunRequest{RunId: open, Reason: "r"}); play.Reason(err) != "RUN_NOT_ERASABLE" {
		t.Errorf("a run of another pack: %v", err)
	}
	if _, err := runs.EraseRun(ctx, &pawlv1.EraseRunRequest{RunId: run}); err == nil {
		t.Error("erased without a reason")
	}
	before, err := runs.VerifyRun(ctx, &pawlv1.VerifyRunRequest{RunId: run})
	if err != nil || !before.GetOk() || before.GetErased() {
		t.Fatalf("before: %v, %v", before, err)
	}
	erased, err := runs.EraseRun(ctx, erase)
	if err != nil || erased.GetDuplicate() || !bytes.Equal(erased.GetHash(), before.GetHash()) || erased.GetRecords() != uint64(before.GetRecords()) {
		t.Fatalf("%v, %v", erased, err)
	}
	for range 2 {
		if found := holding(leftOf(ctx, t, runs, run), append(values, "s3cret-note")); len(found) > 0 {
			t.Errorf("told of an erased run: %v", found)
		}
		refusedOf(ctx, t, runs, run)
		again, err := runs.EraseRun(ctx, &pawlv1.EraseRunRequest{RunId: run, Reason: "another"})
		if err != nil || !again.GetDuplicate() || again.GetErasure().GetReason() != "the subject asked" {
			t.Errorf("again: %v, %v", again, err)
		}
		s.kill()
		s.check()
		if found := filesHolding(t, s.dir, append(values, "s3cret-note")); len(found) > 0 {
			t.Errorf("values in files: %v", found)
		}
		s.start()
		runs = s.runs()
	}
	if _, err := runs.DeleteRun(ctx, &pawlv1.DeleteRunRequest{RunId: run}); err != nil {
		t.Errorf("deleting an erased run: %v", err)
	}
	if got := play.Journal(ctx, t, runs, open); len(got) == 0 {
		t.Error("another run is gone, too")
	}
}
