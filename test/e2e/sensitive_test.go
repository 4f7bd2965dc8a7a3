package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

// secrets are values that the pack calls sensitive, one of each kind.
var secrets = []string{"s3cret-variable", "s3cret-artifact", "s3cret-payload", "s3cret-result", "s3cret-output", "s3cret-input"}

// plainValues are values of the same run that it does not.
var plainValues = []string{"open-variable", "open-artifact", "open-payload", "open-result"}

// withPrincipals is a sidecar with a token for each: NAME SCOPES.
func withPrincipals(t *testing.T, lines []string, args ...string) *sidecar {
	t.Helper()
	var text strings.Builder
	for _, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		fmt.Fprintf(&text, "%s sha256:%x\n", line, sha256.Sum256([]byte(tokenOf(name))))
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return newSidecar(t, append(args, "--tokens-file", file)...)
}

func tokenOf(name string) string { return "token-of-" + name + "-0123456789" }

// asPrincipal is a context whose calls are a principal's.
func asPrincipal(ctx context.Context, name string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+tokenOf(name))
}

func text(words string) []*pawlv1.Part {
	return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: words}}}
}

// driveRun drives a run that has every value, and returns it.
func driveRun(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient) string {
	t.Helper()
	return servedBy(ctx, t, runs, "sensitive")
}

func servedBy(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, pack string) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	start, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: pack, Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: "start of " + pack,
		VariablesJson: `{"account":"s3cret-variable","city":"open-variable"}`, Input: text("s3cret-input"),
	})
	must(err)
	run, turn := start.GetRun().GetRunId(), start.GetTurn()
	steps, err := runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), RequestId: "s",
		Requests: []*pawlv1.StepRequest{
			{Key: "a", Tool: "lookup", PayloadJson: `{"q":"s3cret-payload"}`},
			{Key: "b", Tool: "weather", PayloadJson: `{"q":"open-payload"}`},
		},
	})
	must(err)
	for i, result := range []string{`{"r":"s3cret-result"}`, `{"r":"open-result"}`} {
		step := steps.GetOutcomes()[i].GetStep()
		_, err := runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{
			RunId: run, Step: step.GetStep(), Tool: step.GetTool(), Attempt: 1, TurnToken: turn.GetToken(),
			Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: result},
		})
		must(err)
	}
	_, err = runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), Event: "Again", RequestId: "c",
		Output:   text("s3cret-output"),
		Messages: []*pawlv1.Message{{Role: "assistant", Parts: text("s3cret-output")}},
		Artifacts: []*pawlv1.ArtifactWrite{
			{Name: "record", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: `{"v":"s3cret-artifact"}`}}},
			{Name: "note", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: "open-artifact"}}},
		},
	})
	must(err)
	return run
}

// readAll returns everything that calls return to a principal about a run, as JSON.
func readAll(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, run string) string {
	t.Helper()
	var all strings.Builder
	keep := func(m proto.Message, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		// The form of protojson's output changes from build to build.
		data, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			t.Fatal(err)
		}
		all.Write(append(compact.Bytes(), '\n'))
	}
	got, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run, IncludeArtifacts: true, IncludeVariables: true})
	keep(got, err)
	shown, err := runs.ShowTurn(ctx, &pawlv1.ShowTurnRequest{RunId: run, TurnSeq: 1})
	keep(shown, err)
	list, err := runs.ListRuns(ctx, &pawlv1.ListRunsRequest{})
	keep(list, err)
	waited, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run, Timeout: durationpb.New(time.Millisecond)})
	keep(waited, err)
	records, err := runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, Kinds: play.EveryKind(), Snapshots: true})
	keep(records, err)
	stream, err := runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{RunId: run, Kinds: play.EveryKind()})
	if err != nil {
		t.Fatal(err)
	}
	for range records.GetRecords() {
		item, err := stream.Recv()
		keep(item, err)
	}
	return all.String()
}

func holding(in string, words []string) (found []string) {
	for _, word := range words {
		if strings.Contains(in, word) {
			found = append(found, word)
		}
	}
	return found
}

// TestSensitiveValues checks that a principal without the scope gets sensitive values in no call,
// log or webhook, and gets marks in their places. A principal with the scope, and the executor, get
// everything. The hashes are the same for both.
func TestSensitiveValues(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var hooked strings.Builder
	came := make(chan struct{}, 1)
	ear := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&hooked, r.Body)
		if strings.Contains(hooked.String(), "open-artifact") {
			select {
			case came <- struct{}{}:
			default:
			}
		}
	}))
	defer ear.Close()
	s := withPrincipals(t, []string{
		"driver packs:write,runs:write", "reader runs:read", "auditor runs:read,values:sensitive", "outsider events:external",
	}, "--pack", "testdata/sensitive.pack.yaml", "--allow-tool", "*", "--push-allow", "127.0.0.1", "--log-level", "debug")
	s.start()
	ctx := deadline(t, 5*patience)
	runs := s.runs()
	_, err := s.deliveries().PutWebhook(asPrincipal(ctx, "auditor"), &pawlv1.PutWebhookRequest{
		WebhookId: "w", Url: ear.URL, Secret: "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234567")), FromBeginning: true, Kinds: play.EveryKind(),
	})
	if err != nil {
		t.Fatal(err)
	}
	run := driveRun(asPrincipal(ctx, "driver"), t, runs)
	hidden, unredacted := readAll(asPrincipal(ctx, "reader"), t, runs, run), readAll(asPrincipal(ctx, "auditor"), t, runs, run)
	if found := holding(hidden, secrets); len(found) > 0 {
		t.Errorf("a reader without the scope is told %v\n%s", found, hidden)
	}
	digest := sha256.Sum256([]byte(`{"v":"s3cret-artifact"}`))
	if named := base64.StdEncoding.EncodeToString(digest[:]); strings.Contains(hidden, named) || !strings.Contains(unredacted, named) {
		t.Error("the digest of a short value is told to who may not read it, or not to who may")
	}
	if found := holding(hidden, plainValues); len(found) != len(plainValues) || !strings.Contains(hidden, `"redacted":true`) || !strings.Contains(hidden, "[redacted]") {
		t.Errorf("a reader without the scope is told only %v of what is not sensitive, or not that something is missing\n%s", found, hidden)
	}
	if found := holding(unredacted, slices.Concat(secrets, plainValues)); len(found) != len(secrets)+len(plainValues) || strings.Contains(unredacted, "redacted") {
		t.Errorf("a reader with the scope is told only %v", found)
	}
	turn, err := runs.GetTurn(asPrincipal(ctx, "driver"), &pawlv1.GetTurnRequest{RunId: run})
	if err != nil || len(holding(turn.GetSystemPrompt(), []string{"s3cret-variable", "s3cret-artifact"})) != 2 {
		t.Errorf("who executes is told %q, %v", turn.GetSystemPrompt(), err)
	}
	_, err = runs.ForkRun(asPrincipal(ctx, "driver"), &pawlv1.ForkRunRequest{RunId: run, AtSeq: 1, Pack: "sensitive", RequestId: "f"})
	if status.Code(err) != codes.PermissionDenied || play.Reason(err) != "SENSITIVE_VALUES" {
		t.Errorf("a fork under a pack of choice: %v", err)
	}
	sameHashes(ctx, t, runs, run)
	wholeOrNothing(ctx, t, runs, run)
	select {
	case <-came:
	case <-ctx.Done():
		t.Fatal("the webhook heard nothing")
	}
	mu.Lock()
	defer mu.Unlock()
	if found := holding(hooked.String(), secrets); len(found) > 0 {
		t.Errorf("a webhook is told %v", found)
	}
	s.stop()
	if found := holding(s.stderr.String(), secrets); len(found) > 0 {
		t.Errorf("the log tells %v", found)
	}
}

// sameHashes: the chain that both readers see is one, and it is proven.
func sameHashes(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, run string) {
	t.Helper()
	a, b := play.Journal(asPrincipal(ctx, "reader"), t, runs, run), play.Journal(asPrincipal(ctx, "auditor"), t, runs, run)
	for i := range a {
		if string(a[i].GetHash()) != string(b[i].GetHash()) {
			t.Errorf("record %d has another hash for who may not read its values", i+1)
		}
	}
	proof, err := runs.VerifyRun(asPrincipal(ctx, "reader"), &pawlv1.VerifyRunRequest{RunId: run})
	if err != nil || !proof.GetOk() {
		t.Errorf("%v, %v", proof, err)
	}
}

// wholeOrNothing checks that only a principal that may read all of a run gets its file or its
// comparison.
func wholeOrNothing(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, run string) {
	t.Helper()
	for name, want := range map[string]codes.Code{"reader": codes.PermissionDenied, "auditor": codes.OK} {
		stream, err := runs.ExportRun(asPrincipal(ctx, name), &pawlv1.ExportRunRequest{RunId: run})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != want || want != codes.OK && play.Reason(err) != "SENSITIVE_VALUES" {
			t.Errorf("export by %s: %v", name, err)
		}
		_, err = runs.DiffRuns(asPrincipal(ctx, name), &pawlv1.DiffRunsRequest{RunId: run, Seq: 1})
		if status.Code(err) != want {
			t.Errorf("comparison by %s: %v", name, err)
		}
	}
}
