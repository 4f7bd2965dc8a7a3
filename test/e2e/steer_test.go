package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/executor"
	"github.com/pawl-dev/pawl/internal/model"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// These are the settings of a worker process: the sidecar's address, and the model, if it executes turns.
const (
	workerAddress = "PAWL_E2E_WORKER"
	workerModel   = "PAWL_E2E_MODEL"
)

// workerProcess is this test's binary as a worker process: it serves the tool, and executes turns if it
// gets a model, until it is killed or its standard input ends.
func workerProcess() error {
	conn, err := grpc.NewClient(os.Getenv(workerAddress), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		return err
	}
	looker, err := pawl.NewWorker(pawl.WorkerConfig{Conn: conn, ID: "looker", Steps: 16, Retry: 10 * time.Millisecond, Tools: map[string]pawl.ToolFunc{
		"look": func(context.Context, *pawl.Step) (json.RawMessage, error) {
			return json.RawMessage(`{"seen":"nothing"}`), nil
		},
	}})
	if err != nil {
		return err
	}
	if ask := os.Getenv(workerModel); ask != "" {
		m, err := model.ParseEndpoint(ask)
		if err != nil {
			return err
		}
		m.Timeout = time.Minute
		turns, err := executor.New(executor.Config{Conn: conn, Models: model.NewTable([]*model.Endpoint{&m}, nil), Turns: 16})
		if err != nil {
			return err
		}
		go func() { _ = turns.Run(context.Background()) }()
	}
	go func() { _ = looker.Run(context.Background()) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// workerChild is a worker process.
type workerChild struct {
	t   *testing.T
	env []string
	cmd *exec.Cmd
}

func (h *workerChild) start() {
	h.t.Helper()
	h.cmd = exec.Command(os.Args[0])
	h.cmd.Env = append(os.Environ(), h.env...)
	if _, err := h.cmd.StdinPipe(); err != nil {
		h.t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
}

// kill sends SIGKILL and waits until the process is gone.
func (h *workerChild) kill() {
	_ = h.cmd.Process.Signal(syscall.SIGKILL)
	_ = h.cmd.Wait()
}

// audience is what people say to runs, and what became of it.
type audience struct {
	t       *testing.T
	ctx     context.Context
	runs    pawlv1.RunServiceClient
	control pawlv1.ControlServiceClient
	kind    pawlv1.Execution
	// requests counts requests to the model by the name of the run; acks what was acknowledged to
	// people; killed the processes that were.
	requests sync.Map
	acks     atomic.Int64
	killed   atomic.Int64
	ended    atomic.Bool
	// steered, stops and calls are what was looked at in the end.
	steered, stops, calls atomic.Int64
}

// answer is the model: it calls the tool, or writes text, until it receives that it is over.
func (c *audience) answer(n int, asked endpoint.Request) endpoint.Answer {
	messages := conversation(asked.Body)
	c.checkAnswered(messages)
	name := ""
	for _, m := range messages {
		if m.role == "user" && strings.HasPrefix(m.text, "run ") && name == "" {
			name = m.text
		}
	}
	counter, _ := c.requests.LoadOrStore(name, new(atomic.Int64))
	counter.(*atomic.Int64).Add(1)
	switch last := messages[len(messages)-1]; {
	case strings.HasPrefix(messages[0].text, "Report:"):
		return endpoint.Answer{Text: "Reported."}
	case countMessages(messages, "finish "+name) > 0:
		return leaveAnswer(n, "Found", "the end")
	case last.role == "user" && n%3 == 0:
		return endpoint.Answer{Text: "Hm."}
	case n%2 == 0:
		return lookAnswer(n, `{"at":1}`, `{"at":2}`)
	}
	return lookAnswer(n, `{"at":3}`)
}

// message is one of a request to a model.
type message struct {
	role, text, answers string
	calls               []string
}

// conversation reads the messages of a request in the form of chat completions.
func conversation(body map[string]any) (all []message) {
	raw, _ := json.Marshal(body["messages"])
	var list []struct {
		Role    string
		Content any
		Answers string                `json:"tool_call_id"`
		Calls   []struct{ ID string } `json:"tool_calls"`
	}
	_ = json.Unmarshal(raw, &list)
	for _, from := range list {
		m := message{role: from.Role, answers: from.Answers}
		switch content := from.Content.(type) {
		case string:
			m.text = content
		default:
			words, _ := json.Marshal(content)
			m.text = string(words)
		}
		for _, call := range from.Calls {
			m.calls = append(m.calls, call.ID)
		}
		all = append(all, m)
	}
	return all
}

// countMessages is how many messages of people have a text.
func countMessages(messages []message, text string) (n int) {
	for _, m := range messages {
		if m.role == "user" && strings.Contains(m.text, text) {
			n++
		}
	}
	return n
}

// checkAnswered proves that no call of a model is without its answer, each where it has to be.
func (c *audience) checkAnswered(messages []message) {
	open := map[string]bool{}
	for i, m := range messages {
		if m.role == "tool" {
			if !open[m.answers] {
				c.t.Errorf("message %d answers %q, which nobody asked for: %v", i, m.answers, messages)
			}
			delete(open, m.answers)
			continue
		}
		if len(open) > 0 {
			c.t.Errorf("calls %v have no answer before message %d: %v", open, i, messages)
		}
		for _, id := range m.calls {
			open[id] = true
		}
	}
	if len(open) > 0 {
		c.t.Errorf("calls %v have no answer: %v", open, messages)
	}
	c.calls.Add(1)
}

// speaker is one person and one run.
type speaker struct {
	*audience
	rng      *rand.Rand
	name     string
	id       string
	messages int
	// acknowledged are the acknowledged records, by seq. expectedTexts are the texts that requests must contain, with
	// their times.
	acknowledged  map[uint64][]byte
	expectedTexts map[uint64]*pawlv1.Steered
	// finish is the seq of the last thing that was said, behind which a turn begins with all that waited.
	finish uint64
	// resting are the seqs of stops after which nothing happens until a person continues the run.
	resting map[uint64]bool
}

func (s *speaker) note(r *pawlv1.Record) {
	if r == nil {
		return
	}
	s.acknowledged[r.GetSeq()] = r.GetHash()
	if steered := r.GetSteered(); steered != nil {
		s.expectedTexts[r.GetSeq()] = steered
	}
	s.acks.Add(1)
}

// steer sends a text, and repeats this until the text is acknowledged.
func (s *speaker) steer(text string, when pawlv1.SteerWhen) (seq uint64) {
	s.messages++
	req := &pawlv1.SteerRunRequest{RunId: s.id, Text: text, When: when, RequestId: fmt.Sprintf("steer-%d", s.messages)}
	got, err := play.Retry(s.ctx, func(ctx context.Context) (*pawlv1.SteerRunResponse, error) { return s.control.SteerRun(ctx, req) })
	if err != nil {
		s.t.Errorf("%s: SteerRun: %v", s.name, err)
		return 0
	}
	s.note(got.GetRecord())
	return got.GetRecord().GetSeq()
}

func (s *speaker) words() string { return fmt.Sprintf("words %d of %s.", s.messages, s.name) }

// stop stops the run, looks that it waits, also behind the next kill, and lets it go on.
func (s *speaker) stop() {
	s.messages++
	req := &pawlv1.StopRunRequest{RunId: s.id, RequestId: fmt.Sprintf("stop-%d", s.messages)}
	got, err := play.Retry(s.ctx, func(ctx context.Context) (*pawlv1.StopRunResponse, error) { return s.control.StopRun(ctx, req) })
	if err != nil {
		s.t.Errorf("%s: StopRun: %v", s.name, err)
		return
	}
	s.note(got.GetRecord())
	if got.GetRecord() != nil {
		s.resting[got.GetRecord().GetSeq()] = true
	}
	before := s.killed.Load()
	if s.rng.IntN(2) == 0 {
		eventually(s.t, "somebody is killed", func() bool { return s.killed.Load() > before || s.ended.Load() })
	}
	run, err := play.Retry(s.ctx, func(ctx context.Context) (*pawlv1.GetRunResponse, error) {
		return s.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: s.id})
	})
	if err != nil || run.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_WAITING {
		s.t.Errorf("%s is %v behind its stop, %v", s.name, run.GetRun().GetStatus(), err)
	}
	s.stops.Add(1)
	s.steer(s.words(), pawlv1.SteerWhen(s.rng.IntN(4)))
}

// runOnce is one run from its start to its end.
func (s *speaker) runOnce() {
	got, err := play.Retry(s.ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
		return s.runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "steered", Execution: s.kind, RequestId: s.name, Input: textParts(s.name + " begins")})
	})
	if err != nil {
		s.t.Errorf("%s: StartRun: %v", s.name, err)
		return
	}
	s.id = got.GetRun().GetRunId()
	for range 8 {
		s.goesOn(s.rng.Int64N(3))
		switch s.rng.IntN(8) {
		case 0, 1, 2:
			s.steer(s.words(), pawlv1.SteerWhen_STEER_WHEN_NEXT_MODEL_CALL)
		case 3:
			s.steer(s.words(), pawlv1.SteerWhen_STEER_WHEN_NEXT_TURN)
		case 4, 5:
			s.steer(s.words(), pawlv1.SteerWhen_STEER_WHEN_NOW)
		default:
			s.stop()
		}
	}
	s.finish = s.steer("finish "+s.name+" begins", pawlv1.SteerWhen_STEER_WHEN_NOW)
	ended, err := play.Retry(s.ctx, func(ctx context.Context) (*pawlv1.WaitRunResponse, error) {
		return s.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: s.id})
	})
	if err != nil || ended.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		s.t.Errorf("%s, %s: %v (%s), %v", s.name, s.id, ended.GetRun().GetStatus(), ended.GetRun().GetReason(), err)
		return
	}
	s.checkRecord()
}

// goesOn waits until the model was asked so often more.
func (s *speaker) goesOn(more int64) {
	counter, _ := s.requests.LoadOrStore(s.name+" begins", new(atomic.Int64))
	want := counter.(*atomic.Int64).Load() + more
	eventually(s.t, "the model is asked", func() bool { return counter.(*atomic.Int64).Load() >= want })
}

// checkRecord proves of the whole record what was promised.
func (s *speaker) checkRecord() {
	records := s.records()
	var last *pawlv1.Record
	steered, asked := 0, map[uint32]uint64{}
	for _, r := range records {
		if want, ok := s.acknowledged[r.GetSeq()]; ok {
			if !bytes.Equal(want, r.GetHash()) {
				s.t.Errorf("%s: record %d is not what was acknowledged", s.name, r.GetSeq())
			}
			delete(s.acknowledged, r.GetSeq())
		}
		if r.GetSteered() != nil {
			steered++
		}
		if req := r.GetStepRequested(); req.GetKind() == pawlv1.StepKind_STEP_KIND_MODEL && req.GetModel() != nil {
			asked[req.GetStep()] = r.GetSeq()
		}
		// What a late answer of a stopped call cost, or that it came: neither takes the run further.
		late := r.GetModelUpdated() != nil || r.GetNoChange().GetCall() == "AnswerModel"
		if s.resting[last.GetSeq()] && r.GetSteered() == nil && !late {
			s.t.Errorf("%s: behind the stop %d there is %v", s.name, last.GetSeq(), r)
		}
		if !late {
			last = r
		}
	}
	if len(s.acknowledged) > 0 || steered != len(s.expectedTexts) {
		s.t.Errorf("%s: of what was acknowledged %d records are lost; %d of %d steerings recorded", s.name, len(s.acknowledged), steered, len(s.expectedTexts))
	}
	s.checkRequests(asked)
}

// checkRequests checks all requests to the model. Each contains the earlier texts once, and no later text.
func (s *speaker) checkRequests(asked map[uint32]uint64) {
	for step, at := range asked {
		got, err := play.Retry(s.ctx, func(ctx context.Context) (*pawlv1.GetModelStepResponse, error) {
			return s.runs.GetModelStep(ctx, &pawlv1.GetModelStepRequest{RunId: s.id, Step: step})
		})
		if err != nil {
			s.t.Errorf("%s: GetModelStep %d: %v", s.name, step, err)
			continue
		}
		if strings.HasPrefix(got.GetSystem(), "Report:") {
			continue
		}
		for seq, steered := range s.expectedTexts {
			n := 0
			for _, m := range got.GetMessages() {
				if m.GetRole() == "user" && m.GetParts()[0].GetText() == steered.GetText() {
					n++
				}
			}
			want := 0
			if seq < at {
				want = 1
			}
			later := steered.GetWhen() == pawlv1.SteerWhen_STEER_WHEN_NEXT_TURN && at < s.finish
			if n != want && (n != 0 || !later) {
				s.t.Errorf("%s: request %d (record %d) has %q of record %d %d times, want %d", s.name, step, at, steered.GetText(), seq, n, want)
			}
		}
	}
	s.steered.Add(int64(len(s.expectedTexts)))
}

func (s *speaker) records() (all []*pawlv1.Record) {
	req := &pawlv1.ListTransitionsRequest{RunId: s.id, PageSize: 1000, Kinds: play.EveryKind()}
	for {
		page, err := play.Retry(s.ctx, func(ctx context.Context) (*pawlv1.ListTransitionsResponse, error) {
			return s.runs.ListTransitions(ctx, req)
		})
		if err != nil {
			s.t.Errorf("%s: ListTransitions: %v", s.name, err)
			return all
		}
		all = append(all, page.GetRecords()...)
		if len(page.GetRecords()) == 0 || len(page.GetRecords()) < 1000 {
			return all
		}
		req.AfterSeq = all[len(all)-1].GetSeq()
	}
}

// TestKillWithSteering lets people send texts to runs, stop them and continue them, while the sidecar and
// the process of its workers are killed in random order (PAWL_KILLS). Every request to a model after an
// acknowledged text contains this text once. Every model call has its answer. After a stop nothing
// happens until a person continues the run.
func TestKillWithSteering(t *testing.T) {
	t.Parallel()
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("PAWL_KILLS")); err == nil {
		kills = n
	}
	for name, kind := range map[string]pawlv1.Execution{
		"turns in a worker": pawlv1.Execution_EXECUTION_WORKERS, "turns in the sidecar": pawlv1.Execution_EXECUTION_SIDECAR,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steeredUnderFire(t, kind, kills)
		})
	}
}

func steeredUnderFire(t *testing.T, kind pawlv1.Execution, kills int) {
	c := &audience{t: t, ctx: deadline(t, 15*time.Minute), kind: kind}
	ask := endpointModels["chat"](endpoint.New(t, c.answer))
	args := []string{"--pack", "testdata/steered.pack.yaml", "--allow-tool", "*", "--restart-grace", "300ms", "--step-grace", "300ms"}
	if kind == pawlv1.Execution_EXECUTION_SIDECAR {
		args = append(args, "--model", ask)
	}
	s := newSidecar(t, args...)
	s.start()
	h := &workerChild{t: t, env: []string{workerAddress + "=unix:" + s.socket}}
	if kind == pawlv1.Execution_EXECUTION_WORKERS {
		h.env = append(h.env, workerModel+"="+ask)
	}
	h.start()
	t.Cleanup(func() { h.kill() })
	c.runs, c.control = s.runs(), pawlv1.NewControlServiceClient(s.dial())
	var number atomic.Int64
	var people sync.WaitGroup
	for i := range uint64(4) {
		people.Go(func() {
			rng := rand.New(rand.NewPCG(i, 12))
			for !c.ended.Load() && c.ctx.Err() == nil && !t.Failed() {
				one := &speaker{audience: c, rng: rng, name: fmt.Sprintf("run %d", number.Add(1)), acknowledged: map[uint64][]byte{}, expectedTexts: map[uint64]*pawlv1.Steered{}, resting: map[uint64]bool{}}
				one.runOnce()
			}
		})
	}
	rng := rand.New(rand.NewPCG(9, 12))
	for range kills {
		play.AwaitCount(c.ctx, t, &c.acks, c.acks.Load()+1+rng.Int64N(6))
		if victim := rng.IntN(2); victim == 0 {
			s.kill()
			s.start()
		} else {
			h.kill()
			h.start()
		}
		c.killed.Add(1)
	}
	c.ended.Store(true)
	people.Wait()
	h.kill()
	testkit.ReportTried(t, kills, "kills")
	t.Logf("%d runs, %d steerings, %d stops, %d requests to the model", number.Load(), c.steered.Load(), c.stops.Load(), c.calls.Load())
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.check()
}
