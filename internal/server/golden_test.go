package server

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/test/testkit"
)

// golden makes the test write the files of the current semantics again. Files of an older version
// are never written again, because existing stores have such data.
var golden = flag.Bool("golden", false, "write testdata/golden of the current semantics")

// goldenDir holds portable files of runs by the version of the semantics that made them.
const goldenDir = "testdata/golden"

// oldestGolden is the number of runs of the first version.
const oldestGolden = 9

// goldenPack has a retry with jitter, a timeout, and every kind of bound.
const goldenPack = `{
  "id": "golden", "name": "Golden", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {
    "worker": {
      "id": "worker", "name": "Worker", "version": "1.0.0", "system_template": "Goal: {{goal}}.",
      "variables": [{"name": "goal", "type": "string", "required": true}],
      "tools": ["run_tests", "helper"], "tool_policy": {"max_tool_calls_per_turn": 5}
    },
    "helper": {"id": "helper", "name": "Helper", "version": "1.0.0", "description": "Helps", "system_template": "Help."}
  },
  "tools": {"run_tests": {"name": "run_tests", "description": "Runs tests"}},
  "agents": {"entry": "helper", "members": {"helper": {"description": "Helps"}}},
  "workflow": {
    "version": 2, "entry": "work",
    "engine": {
      "budget": {"max_total_visits": 6, "max_tool_calls": 6, "max_wall_time_sec": 3600},
      "x_pawl": {
        "max_tokens": 100, "max_iterations": {"check": {"Loop": 1}},
        "timeouts": {"gate": {"after_sec": 60, "event": "TimedOut"}},
        "retry": {"max_attempts": 3, "initial_sec": 1, "max_sec": 60},
        "tools": {"run_tests": {"attempts": 2, "timeout_sec": 30}}
      }
    },
    "states": {
      "work": {
        "prompt_task": "worker", "persistence": "persistent",
        "artifacts": {"note": {"type": "text/plain"}, "log": {"type": "application/json", "mode": "append"}},
        "on_event": {"Again": "work", "Check": "check", "Ask": "gate", "Finish": "done"}
      },
      "check": {"prompt_task": "worker", "max_visits": 2, "on_event": {"Loop": "work", "Again": "check", "Finish": "done"}},
      "gate": {"prompt_task": "worker", "orchestration": "external", "on_event": {"Approved": "done", "TimedOut": "work"}},
      "done": {"prompt_task": "worker", "terminal": true}
    }
  }
}`

// TestGoldenRuns: the runs of each version of the semantics can be read and verified for ever. A
// change of a rule without a new version fails here.
func TestGoldenRuns(t *testing.T) {
	t.Parallel()
	if *golden {
		writeGolden(t)
	}
	files, err := filepath.Glob(filepath.Join(goldenDir, "v*", "*.run"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden runs: %v", err)
	}
	for name := range goldenRuns {
		if current := filepath.Join(goldenDir, fmt.Sprintf("v%d", machine.Current), name+".run"); !slices.Contains(files, current) {
			t.Errorf("no %s: run the test with -golden", current)
		}
	}
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, goldenDir+"/"), func(t *testing.T) {
			t.Parallel()
			proven, err := VerifyFile(file)
			if err != nil || !proven.OK() || proven.Records == 0 {
				t.Errorf("%+v, %v", proven, err)
			}
		})
	}
}

// TestGoldenStore: a check of a store with a run of any version finds no fault, and the run can
// be read as of each record.
func TestGoldenStore(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(goldenDir, "v*", "*.run"))
	if err != nil || len(files) < int(machine.Current)*oldestGolden {
		t.Fatalf("%d golden runs, %v", len(files), err)
	}
	for _, name := range files {
		dir := t.TempDir()
		r := openGolden(t, dir)
		r.readBack(name)
		r.close()
		report, err := Check(context.Background(), Data{Dir: dir})
		if err != nil || report.Runs != 1 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
}

// readBack imports a file and reads the run at each of its records.
func (r *goldenRig) readBack(name string) {
	r.t.Helper()
	file, err := os.Open(name)
	r.check(err)
	defer func() { r.check(file.Close()) }()
	st, _, err := r.TimeTravel.ImportRun(context.Background(), r.call(), file)
	r.check(err)
	r.run = st.RunID
	for seq := uint64(1); seq <= st.Seq; seq++ {
		_, err := r.GetRun(context.Background(), query.GetRunRequest{RunRef: r.ref(), AtSeq: seq, Artifacts: true})
		r.check(err)
	}
}

// goldenRig drives runs whose journals are the same each time.
type goldenRig struct {
	*services.Runtime
	t         *testing.T
	clock     *testkit.Clock
	principal runtime.Principal
	run       string
	// close ends the engine and closes its store.
	close func()
}

// openGolden opens a rig over the store in a directory. The caller closes it.
func openGolden(t *testing.T, dir string) *goldenRig {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	r := &goldenRig{t: t, clock: testkit.NewClock(), principal: runtime.Principal{Subject: "golden", Scopes: runtime.ScopeAdmin}}
	r.Runtime, err = services.New(services.Config{
		Config: runtime.Config{Store: s, Clock: r.clock, IDs: &testkit.IDs{}, AllowTools: []string{"*"}}, Archive: s, Blobs: s,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Engine.Run(ctx) }()
	r.close = func() {
		stop()
		<-ended
		r.check(s.Close())
	}
	return r
}

func newGoldenRig(t *testing.T) *goldenRig {
	t.Helper()
	r := openGolden(t, t.TempDir())
	t.Cleanup(r.close)
	_, err := r.RegisterPack(context.Background(), packs.RegisterRequest{Call: r.call(), Document: []byte(goldenPack)})
	r.check(err)
	return r
}

func (r *goldenRig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *goldenRig) call() runtime.Call { return runtime.Call{Principal: r.principal} }

func (r *goldenRig) ref() runtime.RunRef { return runtime.RunRef{Call: r.call(), RunID: r.run} }

func (r *goldenRig) turn() runtime.TurnCall {
	r.t.Helper()
	turn, err := r.GetTurn(context.Background(), r.ref())
	r.check(err)
	return runtime.TurnCall{RunRef: r.ref(), TurnToken: turn.Token}
}

func (r *goldenRig) start(conversation bool) {
	r.t.Helper()
	answer, err := r.StartRun(context.Background(), runtime.StartRequest{
		Call: r.call(), Pack: "golden", Execution: machine.Caller, Variables: []byte(`{"goal":"g"}`), Conversation: conversation,
		Input: goldenParts("begin"), Labels: []machine.Label{{Key: "kind", Value: "golden"}}, RequestID: "start",
	})
	r.check(err)
	r.run = answer.RunID
}

func goldenParts(words string) []machine.Part {
	return []machine.Part{{Kind: machine.PartText, Text: words}}
}

func (r *goldenRig) emit(event string, writes ...machine.ArtifactWrite) *machine.State {
	r.t.Helper()
	answer, err := r.EmitEvent(context.Background(), runtime.EmitRequest{RunRef: r.ref(), Event: event, Artifacts: writes, TurnToken: r.turn().TurnToken})
	r.check(err)
	return answer.State
}

func (r *goldenRig) input(words string) {
	r.t.Helper()
	_, err := r.SendInput(context.Background(), runtime.InputRequest{RunRef: r.ref(), Parts: goldenParts(words), MessageID: words})
	r.check(err)
}

func (r *goldenRig) complete(usage machine.Usage) *machine.State {
	r.t.Helper()
	answer, err := r.CompleteTurn(context.Background(), runtime.CompleteRequest{TurnCall: r.turn(), Output: goldenParts("out"), Usage: usage})
	r.check(err)
	return answer.State
}

func (r *goldenRig) fail(retryable bool) {
	r.t.Helper()
	_, err := r.FailTurn(context.Background(), runtime.FailRequest{TurnCall: r.turn(), Error: machine.Fault{Code: "BROKEN", Message: "b"}, Retryable: retryable})
	r.check(err)
}

// request asks for one step and returns its number.
func (r *goldenRig) request(tool, payload string) uint32 {
	r.t.Helper()
	answer, err := r.RequestSteps(context.Background(), runtime.StepsRequest{
		TurnCall: r.turn(), Requests: []machine.StepRequest{{Key: payload, Tool: tool, Payload: []byte(payload)}},
	})
	r.check(err)
	return answer.Steps[0].Step
}

func (r *goldenRig) resolve(step uint32, tool string, ok bool) {
	r.t.Helper()
	req := runtime.ResolveRequest{RunRef: r.ref(), Step: step, Tool: tool, Attempt: 1, OK: ok}
	if ok {
		req.Result = []byte(`{"n":1}`)
	} else {
		req.Error = machine.Fault{Code: "BROKEN", Message: "b"}
	}
	_, err := r.ResolveStep(context.Background(), req)
	r.check(err)
}

// pass advances the clock to the timer that is due within d, and waits for the records that the timer makes.
func (r *goldenRig) pass(d time.Duration) {
	r.t.Helper()
	before, err := r.GetRun(context.Background(), query.GetRunRequest{RunRef: r.ref()})
	r.check(err)
	r.clock.AwaitAlarm(d)
	r.clock.Advance(d)
	_, _, err = r.WaitRun(context.Background(), streams.WaitRequest{RunRef: r.ref(), AfterSeq: before.State.Seq})
	r.check(err)
}

// goldenRuns go through every rule that is a function of more than its input.
var goldenRuns = map[string]func(*goldenRig){
	"retries": func(r *goldenRig) {
		r.fail(true)
		r.pass(time.Minute)
		r.fail(true)
		_, err := r.PauseRun(context.Background(), runtime.ControlRequest{RunRef: r.ref(), Note: "n", ID: "p"})
		r.check(err)
		_, err = r.ResumeRun(context.Background(), runtime.ControlRequest{RunRef: r.ref(), ID: "r"})
		r.check(err)
		r.fail(true)
	},
	"steps": func(r *goldenRig) {
		r.resolve(r.request("run_tests", `{"a":1}`), "run_tests", true)
		lost := r.request("run_tests", `{"a":2}`)
		r.resolve(lost, "run_tests", false)
		r.pass(time.Minute)
		r.request("helper", `{"input":"x"}`)
		r.emit("Finish", machine.ArtifactWrite{Name: "note", Value: []byte("done")}, machine.ArtifactWrite{Name: "log", Value: []byte(`{"a":1}`)})
		r.complete(machine.Usage{InputTokens: 60, OutputTokens: 40})
	},
	"timeout": func(r *goldenRig) {
		r.emit("Ask")
		r.pass(2 * time.Minute)
		_, err := r.CancelRun(context.Background(), runtime.ControlRequest{RunRef: r.ref(), Note: "n"})
		r.check(err)
	},
	"wall_time":      func(r *goldenRig) { r.pass(2 * time.Hour) },
	"max_visits":     func(r *goldenRig) { r.emit("Check"); r.emit("Again"); r.emit("Again") },
	"max_iterations": func(r *goldenRig) { r.emit("Check"); r.emit("Loop"); r.emit("Check"); r.emit("Loop") },
	"max_total_visits": func(r *goldenRig) {
		for range 6 {
			r.emit("Again")
		}
	},
	"conversation": func(r *goldenRig) {
		r.emit("Check")
		r.input("hello")
		r.emit("Again")
		r.input("again")
		r.emit("Finish")
		r.complete(machine.Usage{})
	},
	"max_tokens": func(r *goldenRig) { r.complete(machine.Usage{InputTokens: 90, OutputTokens: 11}) },
	"fork": func(r *goldenRig) {
		r.emit("Again", machine.ArtifactWrite{Name: "log", Value: []byte(`[1]`)})
		r.resolve(r.request("run_tests", `{"a":1}`), "run_tests", true)
		answer, err := r.TimeTravel.ForkRun(context.Background(), timetravel.ForkRequest{RunRef: r.ref(), Execution: machine.Caller})
		r.check(err)
		r.run = answer.RunID
		r.emit("Check", machine.ArtifactWrite{Name: "log", Value: []byte(`[2]`)})
	},
}

func writeGolden(t *testing.T) {
	t.Helper()
	dir := filepath.Join(goldenDir, fmt.Sprintf("v%d", machine.Current))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, drive := range goldenRuns {
		r := newGoldenRig(t)
		r.start(name == "conversation")
		drive(r)
		var file bytes.Buffer
		err := errors.Join(
			r.TimeTravel.ExportRun(context.Background(), r.ref(), &file),
			os.WriteFile(filepath.Join(dir, name+".run"), file.Bytes(), 0o600),
		)
		r.check(err)
	}
}
