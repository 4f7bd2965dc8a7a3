package executor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// steeredRig is a rig whose runs are steered by people.
type steeredRig struct {
	*rig
	control pawlv1.ControlServiceClient
}

func newSteered(t *testing.T, pack string, answer func(n int, asked endpoint.Request) endpoint.Answer) *steeredRig {
	t.Helper()
	model := endpoint.New(t, answer)
	conf := config.Default()
	conf.Models, conf.AllowTools, conf.DrainTimeout = []string{"gpt=" + model.URL}, []string{"*"}, time.Second
	l, err := server.StartLocal(conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if _, err := pawlv1.NewPackServiceClient(l.Conn).RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Content: []byte(pack)}); err != nil {
		t.Fatal(err)
	}
	return &steeredRig{rig: &rig{t: t, runs: pawlv1.NewRunServiceClient(l.Conn), model: model}, control: pawlv1.NewControlServiceClient(l.Conn)}
}

func (r *steeredRig) steer(run, text string, when pawlv1.SteerWhen) {
	r.t.Helper()
	if _, err := r.control.SteerRun(r.t.Context(), &pawlv1.SteerRunRequest{RunId: run, Text: text, When: when}); err != nil {
		r.t.Error(err)
	}
}

// requestText returns the messages of request n to the model. n begins at 0.
func (r *steeredRig) requestText(n int) string {
	r.t.Helper()
	raw, err := json.Marshal(r.model.Requests()[n].Body["messages"])
	if err != nil {
		r.t.Fatal(err)
	}
	return string(raw)
}

// TestSteer: a text that a person sends while the model answers is in the next request, and only once.
func TestSteer(t *testing.T) {
	t.Parallel()
	runs, told := make(chan string, 1), make(chan struct{})
	var r *steeredRig
	r = newSteered(t, desk(``), func(n int, _ endpoint.Request) endpoint.Answer {
		switch n {
		case 0:
			r.steer(<-runs, "Go left.", pawlv1.SteerWhen_STEER_WHEN_UNSPECIFIED)
			close(told)
			return endpoint.Answer{Text: "Hm."}
		case 3:
			return endpoint.Answer{Text: "Reported."}
		case 2:
			return doneAnswer()
		}
		return endpoint.Answer{Text: "Well."}
	})
	run := r.start()
	runs <- run
	<-told
	if got := r.ended(run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Fatalf("%v: %s", got, r.records(run))
	}
	for n, want := range []int{0, 1, 1} {
		if got := strings.Count(r.requestText(n), "Go left."); got != want {
			t.Errorf("request %d has it %d times, want %d: %s", n, got, want, r.requestText(n))
		}
	}
}

// calling returns a pack with a tool that no worker serves.
func calling() string {
	pack := strings.Replace(desk(``), `"system_template": "Work."`, `"system_template": "Work.", "tools": ["look"]`, 1)
	return strings.Replace(pack, `"prompts": {`, `"tools": {"look": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}}, "prompts": {`, 1)
}

// TestSteerNow: the next request has an answer for each call that was in progress. The text of the person
// comes after them. A stopped run waits until a person continues it.
func TestSteerNow(t *testing.T) {
	t.Parallel()
	r := newSteered(t, calling(), func(_ int, asked endpoint.Request) endpoint.Answer {
		raw, _ := json.Marshal(asked.Body["messages"])
		switch said := string(raw); {
		case strings.Contains(said, "Report."):
			return endpoint.Answer{Text: "Reported."}
		case strings.Contains(said, "Go on then."):
			return doneAnswer()
		case strings.Contains(said, "No, right."):
			return endpoint.Answer{Text: "Let me think", Hang: true}
		}
		calls := []endpoint.Call{{ID: "a", Name: "look", Arguments: `{}`}, {ID: "b", Name: "look", Arguments: `{}`}}
		return endpoint.Answer{Text: "Let me look.", Calls: calls}
	})
	run := r.start()
	asked := func(steps int) {
		t.Helper()
		stream, err := r.runs.StreamTransitions(t.Context(), &pawlv1.StreamTransitionsRequest{
			RunId: run, Follow: true, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED},
		})
		if err != nil {
			t.Fatal(err)
		}
		for range steps {
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
	}
	asked(3)
	r.steer(run, "No, right.", pawlv1.SteerWhen_STEER_WHEN_NOW)
	asked(4)
	if _, err := r.control.StopRun(t.Context(), &pawlv1.StopRunRequest{RunId: run, Note: "enough"}); err != nil {
		t.Fatal(err)
	}
	if got, err := r.runs.GetRun(t.Context(), &pawlv1.GetRunRequest{RunId: run}); err != nil || got.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_WAITING {
		t.Fatalf("%v, %v", got.GetRun(), err)
	}
	r.tell(run, "Go on then.")
	if got := r.ended(run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Fatalf("%v: %s", got, r.records(run))
	}
	last := r.model.Requests()
	said := r.requestText(len(last) - 2)
	at := -1
	for _, want := range []string{"Let me look.", `"tool_call_id":"a"`, `"tool_call_id":"b"`, "No, right.", "Go on then."} {
		next := strings.Index(said, want)
		if next <= at {
			t.Fatalf("%q is not behind what comes before it: %s", want, said)
		}
		at = next
	}
	if n := strings.Count(said, "CANCELLED_BY_USER"); n != 2 {
		t.Errorf("%d calls were cancelled: %s", n, said)
	}
}
