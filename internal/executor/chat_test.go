package executor_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// awaitInput waits until a run waits for a person. It returns what the run said last.
func (r *rig) awaitInput(run string) string {
	r.t.Helper()
	got, err := r.runs.WaitRun(r.t.Context(), &pawlv1.WaitRunRequest{RunId: run, Until: pawlv1.WaitUntil_WAIT_UNTIL_WAITING, Timeout: durationpb.New(time.Minute)})
	if err != nil || got.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_WAITING || got.GetRun().GetAwaiting() != pawlv1.Awaiting_AWAITING_INPUT {
		r.t.Fatalf("%v, %v; %s", got.GetRun(), err, r.records(run))
	}
	page, err := r.runs.ListTransitions(r.t.Context(), &pawlv1.ListTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_TURN_COMPLETED}})
	if err != nil {
		r.t.Fatal(err)
	}
	var said []string
	for _, part := range page.GetRecords()[len(page.GetRecords())-1].GetTurnCompleted().GetOutput() {
		said = append(said, part.GetText())
	}
	return strings.Join(said, "\n")
}

func (r *rig) tell(run, text string) {
	r.t.Helper()
	parts := []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: text}}}
	if _, err := r.runs.SendInput(r.t.Context(), &pawlv1.SendInputRequest{RunId: run, Parts: parts}); err != nil {
		r.t.Fatal(err)
	}
}

// TestChat: in a chat state, a text of the model is an answer to the person, and so is a question. If the
// model asks with wrong arguments, its next request contains the error. Then the model leaves the state.
func TestChat(t *testing.T) {
	t.Parallel()
	ask := func(arguments string) endpoint.Answer {
		return endpoint.Answer{Text: "Well.", Calls: []endpoint.Call{{ID: "a", Name: "ask_user", Arguments: arguments}}}
	}
	script := []endpoint.Answer{{Text: "Hello."}, ask(`{"q":1}`), ask(`{"question":""}`), ask(`{"question":"Which one?"}`), doneAnswer(), {Text: "Reported."}}
	for _, scheme := range []string{"", "anthropic+"} {
		r := newRig(t, desk(`"chat": ["work"]`), scheme, func(n int) endpoint.Answer { return script[n] })
		run := r.start()
		if said := r.awaitInput(run); said != "Hello." {
			t.Errorf("said %q", said)
		}
		r.tell(run, "I want one.")
		if said := r.awaitInput(run); said != "Well.\nWhich one?" {
			t.Errorf("said %q", said)
		}
		r.tell(run, "The red one.")
		if got := r.ended(run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
			t.Fatalf("%v: %s", got, r.records(run))
		}
		asked := r.model.Requests()
		raw, err := json.Marshal(asked[4].Body)
		if err != nil || !strings.Contains(string(raw), "The red one.") || strings.Count(string(raw), "question") < 2 {
			t.Errorf("asked %s, %v", raw, err)
		}
		if last, _ := json.Marshal(asked[5].Body["tools"]); strings.Contains(string(last), "ask_user") {
			t.Errorf("nobody is asked in a state that ends: %s", last)
		}
	}
}

// two is a pack that names its models.
const two = `"models": {"work": "large", "*": "small"}`

// TestAPackNamesItsModel: the turns of each prompt ask the model that the pack names for it. If no endpoint
// serves a named model, the sidecar refuses to start the run and lists the models that it has.
func TestAPackNamesItsModel(t *testing.T) {
	t.Parallel()
	script := func(n int, asked endpoint.Request) endpoint.Answer {
		if asked.Body["model"] == "l" {
			return doneAnswer()
		}
		return endpoint.Answer{Text: "Reported."}
	}
	model := endpoint.New(t, script)
	conf := config.Default()
	conf.DrainTimeout, conf.Models = time.Second, []string{"small=" + model.URL + "#s", "large=" + model.URL + "#l"}
	r := local(t, conf, desk(two))
	r.model = model
	if got := r.ended(r.start()); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Fatalf("%v", got)
	}
	var names []any
	for _, asked := range model.Requests() {
		names = append(names, asked.Body["model"])
	}
	if !slices.Equal(names, []any{"l", "s"}) {
		t.Errorf("asked %v", names)
	}
	conf.Models = conf.Models[:1]
	r = local(t, conf, desk(two))
	_, err := r.runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "desk", Execution: pawlv1.Execution_EXECUTION_SIDECAR})
	info, _ := status.Convert(err).Details()[0].(*errdetails.ErrorInfo)
	if status.Code(err) != codes.FailedPrecondition || info.GetReason() != "NO_SUCH_MODEL" || !strings.Contains(err.Error(), `"large"`) || !strings.Contains(info.String(), "small") {
		t.Errorf("%v, %v", err, info)
	}
	if _, err := r.runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "desk", Execution: pawlv1.Execution_EXECUTION_WORKERS}); err != nil {
		t.Errorf("whoever else executes it knows models of its own: %v", err)
	}
}

// local returns a rig over a sidecar with a pack.
func local(t *testing.T, conf config.Config, pack string) *rig {
	t.Helper()
	l, err := server.StartLocal(conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &rig{t: t, runs: pawlv1.NewRunServiceClient(l.Conn)}
	if _, err := pawlv1.NewPackServiceClient(l.Conn).RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Content: []byte(pack)}); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestModelsOfAFile: the sidecar executes runs with a model from a file as with a model from a flag.
func TestModelsOfAFile(t *testing.T) {
	t.Parallel()
	model := endpoint.New(t, func(n int, _ endpoint.Request) endpoint.Answer {
		if n == 0 {
			return doneAnswer()
		}
		return endpoint.Answer{Text: "Reported."}
	})
	conf := config.Default()
	conf.DrainTimeout, conf.ModelsFile = time.Second, t.TempDir()+"/models.yaml"
	if err := os.WriteFile(conf.ModelsFile, []byte("gpt: "+model.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	r := local(t, conf, desk(``))
	if got := r.ended(r.start()); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Errorf("%v", got)
	}
}
