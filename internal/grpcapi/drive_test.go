package grpcapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/grpcapi/fault"
	"github.com/pawl-dev/pawl/internal/grpcapi/tally"
	"github.com/pawl-dev/pawl/internal/house"
)

// wheel is a client at the other end of a Drive stream.
type wheel struct {
	t      testing.TB
	stream pawlv1.RunService_DriveClient
	hangUp context.CancelFunc
	window int
	ids    uint64
	early  map[uint64]*pawlv1.DriveAnswer
}

// wheel opens a stream and reads its window.
func (r *rig) wheel(ctx context.Context) *wheel {
	r.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	r.t.Cleanup(cancel)
	stream, err := r.runs.Drive(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || len(first.GetAnswers()) != 0 || first.GetWindow() == 0 {
		r.t.Fatalf("the first message is %v, %v", first, err)
	}
	return &wheel{t: r.t, stream: stream, hangUp: cancel, window: int(first.GetWindow()), early: map[uint64]*pawlv1.DriveAnswer{}}
}

// commandOf puts a request into the field of its name.
func commandOf(t testing.TB, id uint64, req proto.Message) *pawlv1.DriveCommand {
	t.Helper()
	out := &pawlv1.DriveCommand{Id: id}
	fields := out.ProtoReflect().Descriptor().Oneofs().ByName("command").Fields()
	for i := range fields.Len() {
		if fields.Get(i).Message().FullName() == req.ProtoReflect().Descriptor().FullName() {
			out.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfMessage(req.ProtoReflect()))
			return out
		}
	}
	t.Fatalf("no command takes a %T", req)
	return nil
}

// send sends requests in one message and returns their ids.
func (w *wheel) send(requests ...proto.Message) []uint64 {
	w.t.Helper()
	ids, out := make([]uint64, len(requests)), &pawlv1.DriveRequest{}
	for i, req := range requests {
		w.ids++
		ids[i] = w.ids
		out.Commands = append(out.Commands, commandOf(w.t, w.ids, req))
	}
	if err := w.stream.Send(out); err != nil {
		w.t.Fatal(err)
	}
	return ids
}

// answer reads until the answer to a command has come.
func (w *wheel) answer(id uint64) *pawlv1.DriveAnswer {
	w.t.Helper()
	for w.early[id] == nil {
		in, err := w.stream.Recv()
		if err != nil {
			w.t.Fatalf("the stream ended before the answer to %d: %v", id, err)
		}
		w.keep(in)
	}
	got := w.early[id]
	delete(w.early, id)
	return got
}

func (w *wheel) keep(in *pawlv1.DriveResponse) {
	w.t.Helper()
	if in.GetWindow() != 0 || len(in.GetAnswers()) == 0 {
		w.t.Errorf("a message with the window %d and %d answers", in.GetWindow(), len(in.GetAnswers()))
	}
	for _, a := range in.GetAnswers() {
		if w.early[a.GetId()] != nil || a.GetId() == 0 || a.GetId() > w.ids {
			w.t.Errorf("a second answer to %d, or to nothing", a.GetId())
		}
		w.early[a.GetId()] = a
	}
}

// end reads the stream to its end, keeps the answers and returns why it ended; nil: OK.
func (w *wheel) end() error {
	w.t.Helper()
	for {
		in, err := w.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		w.keep(in)
	}
}

// do sends one request and waits for its answer.
func (w *wheel) do(req proto.Message) *pawlv1.DriveAnswer {
	w.t.Helper()
	return w.answer(w.send(req)[0])
}

func again(turn *pawlv1.TurnRef, writes ...*pawlv1.ArtifactWrite) *pawlv1.EmitEventRequest {
	return &pawlv1.EmitEventRequest{RunId: turn.GetRunId(), Event: "Again", TurnToken: turn.GetToken(), Artifacts: writes}
}

// TestDriveIsTheRPCs: every command is the RPC of its name and type, and what that
// refuses, the command refuses with the very same status.
func TestDriveIsTheRPCs(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	w := r.wheel(ctx)
	commands := (&pawlv1.DriveCommand{}).ProtoReflect().Descriptor().Oneofs().ByName("command").Fields()
	answers := (&pawlv1.DriveAnswer{}).ProtoReflect().Descriptor().Fields()
	rpcs := pawlv1.File_pawl_v1_run_proto.Services().ByName("RunService").Methods()
	for i := range commands.Len() {
		field := commands.Get(i)
		var rpc protoreflect.MethodDescriptor
		for j := range rpcs.Len() {
			if rpcs.Get(j).Input() == field.Message() {
				rpc = rpcs.Get(j)
			}
		}
		answer := answers.ByName(field.Name())
		if rpc == nil || answer == nil || answer.Message() != rpc.Output() || answer.Number() != field.Number() {
			t.Errorf("%s is not the command and answer of one RPC", field.Name())
			continue
		}
		path := fmt.Sprintf("/pawl.v1.RunService/%s", rpc.Name())
		for _, run := range []string{"", "01J99999999999999999999999"} {
			req := (&pawlv1.DriveCommand{}).ProtoReflect().NewField(field).Message().Interface()
			if id := field.Message().Fields().ByName("run_id"); id != nil {
				req.ProtoReflect().Set(id, protoreflect.ValueOfString(run))
			}
			want := status.Convert(r.conn.Invoke(ctx, path, req, dynamicpb.NewMessage(rpc.Output()))).Proto()
			if got := w.do(req).GetError(); want.GetCode() == 0 || !proto.Equal(got, want) {
				t.Errorf("%s to run %q: %v, the RPC %v", field.Name(), run, got, want)
			}
		}
	}
}

// TestDriveCommandsKnowTheirRuns: what names a run is ordered by it; a command that runOf
// forgets would be made beside the others of its run.
func TestDriveCommandsKnowTheirRuns(t *testing.T) {
	t.Parallel()
	const run = "01J99999999999999999999999"
	commands := (&pawlv1.DriveCommand{}).ProtoReflect().Descriptor().Oneofs().ByName("command").Fields()
	for i := range commands.Len() {
		field, want := commands.Get(i), ""
		in := &pawlv1.DriveCommand{}
		req := in.ProtoReflect().NewField(field)
		if id := field.Message().Fields().ByName("run_id"); id != nil {
			req.Message().Set(id, protoreflect.ValueOfString(run))
			want = run
		}
		in.ProtoReflect().Set(field, req)
		if got := runOf(in); got != want {
			t.Errorf("%s is ordered by %q, want %q", field.Name(), got, want)
		}
	}
}

// TestDriveRuns: what commands do is done, and their answers are the RPCs'.
func TestDriveRuns(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	w := r.wheel(ctx)
	started := w.do(startRequest()).GetStartRun()
	run := started.GetRun().GetRunId()
	moved := w.do(again(started.GetTurn(), text("note", "x"))).GetEmitEvent()
	turn := w.do(&pawlv1.GetTurnRequest{RunId: run}).GetGetTurn().GetTurn()
	if turn.GetTurnSeq() != moved.GetTurn().GetTurnSeq() || turn.GetToken() == "" {
		t.Fatalf("turn %v after %v", turn, moved)
	}
	token := turn.GetToken()
	steps := w.do(&pawlv1.RequestStepRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: token, Requests: []*pawlv1.StepRequest{{Tool: "run_tests", PayloadJson: `{"path": "."}`}},
	}).GetRequestStep()
	number := steps.GetOutcomes()[0].GetStep().GetStep()
	suspended := w.do(&pawlv1.SuspendTurnRequest{RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: token}).GetSuspendTurn()
	resolved := w.do(&pawlv1.ResolveStepRequest{
		RunId: run, Step: number, Tool: "run_tests", Attempt: 1, TurnToken: token, Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: "1"},
	}).GetResolveStep()
	set := w.do(&pawlv1.SetArtifactsRequest{RunId: run, TurnToken: token, Artifacts: []*pawlv1.ArtifactWrite{text("note", "y")}}).GetSetArtifacts()
	written := w.do(&pawlv1.WriteOutputRequest{RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: token, Piece: &pawlv1.OutputPiece{
		Id: "o", Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "z"}}},
	}})
	given := w.do(&pawlv1.SendInputRequest{RunId: run, Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "x"}}}}).GetSendInput()
	paused, resumed := w.do(&pawlv1.PauseRunRequest{RunId: run}).GetPauseRun(), w.do(&pawlv1.ResumeRunRequest{RunId: run}).GetResumeRun()
	for name, seq := range map[string]uint64{
		"suspend_turn": suspended.GetSeq(), "resolve_step": resolved.GetSeq(), "set_artifacts": set.GetSeq(), "write_output": written.GetWriteOutput().GetSeq(),
		"send_input": given.GetSeq(), "pause_run": paused.GetSeq(), "resume_run": resumed.GetSeq(),
	} {
		if seq == 0 {
			t.Errorf("%s was not done", name)
		}
	}
	turn = w.do(&pawlv1.GetTurnRequest{RunId: run}).GetGetTurn().GetTurn()
	failed := w.do(&pawlv1.FailTurnRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), Error: &pawlv1.Fault{Code: "x"}, Retryable: true,
	}).GetFailTurn()
	turn = w.do(&pawlv1.GetTurnRequest{RunId: run}).GetGetTurn().GetTurn()
	completed := w.do(&pawlv1.CompleteTurnRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), Event: "Again",
	}).GetCompleteTurn()
	cancelled := w.do(&pawlv1.CancelRunRequest{RunId: run}).GetCancelRun()
	if failed.GetRecord() == nil || completed.GetTransition() == nil || cancelled.GetStatus() != pawlv1.RunStatus_RUN_STATUS_CANCELLED {
		t.Fatalf("failed %v, completed %v, cancelled %v", failed, completed, cancelled)
	}
}

// TestDriveOrder: commands of one run, in one message or several, take effect in the
// order in which they were sent; a refused one stops nothing.
func TestDriveOrder(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	w := r.wheel(ctx)
	runs := make([]string, 8)
	for i := range runs {
		runs[i] = w.do(startRequest()).GetStartRun().GetRun().GetRunId()
	}
	const each = 12
	ids := map[string][]uint64{}
	for n := range each {
		var message []proto.Message
		for _, run := range runs {
			message = append(message, &pawlv1.SetArtifactsRequest{RunId: run, Artifacts: []*pawlv1.ArtifactWrite{text("nope", "")}},
				&pawlv1.SendInputRequest{RunId: run, MessageId: fmt.Sprint(n), Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: fmt.Sprint(n)}}}})
		}
		for i, id := range w.send(message...) {
			if run := runs[i/2]; i%2 == 1 {
				ids[run] = append(ids[run], id)
			} else if w.answer(id).GetError() == nil {
				t.Fatal("an undeclared artifact was taken")
			}
		}
	}
	for run, sent := range ids {
		var last uint64
		for _, id := range sent {
			got := w.answer(id).GetSendInput()
			if got.GetSeq() <= last {
				t.Fatalf("run %s: seq %d after %d", run, got.GetSeq(), last)
			}
			last = got.GetSeq()
		}
	}
}

// TestDriveBadMessages: a message that counts wrong ends the stream once what came
// before is answered, and nothing of it is done.
func TestDriveBadMessages(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	bad := func(ids ...uint64) *pawlv1.DriveRequest {
		out := &pawlv1.DriveRequest{}
		for _, id := range ids {
			out.Commands = append(out.Commands, commandOf(t, id, again(turn)))
		}
		return out
	}
	for name, tt := range map[string]struct {
		message *pawlv1.DriveRequest
		code    codes.Code
		reason  string
	}{
		"id 0":          {bad(2, 0), codes.InvalidArgument, "BAD_COMMAND_ID"},
		"one id twice":  {bad(2, 2), codes.InvalidArgument, "BAD_COMMAND_ID"},
		"too many":      {bad(slices.Repeat([]uint64{7}, driveWindow+1)...), codes.ResourceExhausted, "TOO_MANY_COMMANDS"},
		"bad namespace": {&pawlv1.DriveRequest{Namespace: "No Such"}, codes.InvalidArgument, "INVALID_REQUEST"},
	} {
		w := r.wheel(ctx)
		before := w.send(&pawlv1.GetTurnRequest{RunId: turn.GetRunId()})[0]
		if err := w.stream.Send(tt.message); err != nil {
			t.Fatal(err)
		}
		commits := r.store.Commits()
		wantError(t, w.end(), tt.code, tt.reason)
		if w.early[before].GetGetTurn() == nil || len(w.early) != 1 || r.store.Commits() != commits {
			t.Errorf("%s: answers %v, %d commits", name, w.early, r.store.Commits()-commits)
		}
	}
}

// TestDriveBadCommands: each is answered by its own error and the stream goes on.
func TestDriveBadCommands(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	w := r.wheel(ctx)
	unknown := &pawlv1.DriveCommand{Id: 2}
	unknown.ProtoReflect().SetUnknown(protoreflect.RawFields{0x9a, 0x06, 0x00}) // field 99
	long := commandOf(t, 3, startRequest())
	long.Traceparent = string(make([]byte, maxTraceparentBytes+1))
	elsewhere := commandOf(t, 4, again(turn))
	elsewhere.GetEmitEvent().Namespace = "elsewhere"
	w.ids = 5
	if err := w.stream.Send(&pawlv1.DriveRequest{Commands: []*pawlv1.DriveCommand{
		{Id: 1}, unknown, long, elsewhere, commandOf(t, 5, again(turn)),
	}}); err != nil {
		t.Fatal(err)
	}
	for id, reason := range map[uint64]string{1: fault.InvalidRequest, 2: fault.InvalidRequest, 3: fault.InvalidRequest, 4: "NAMESPACE_NOT_FOUND"} {
		wantReason(t, w.answer(id), reason)
	}
	if w.answer(5).GetEmitEvent().GetTransition() == nil {
		t.Error("the good command was not made")
	}
	// The namespace of a message is that of its commands that have none.
	w.ids = 6
	if err := w.stream.Send(&pawlv1.DriveRequest{Namespace: "elsewhere", Commands: []*pawlv1.DriveCommand{commandOf(t, 6, again(turn))}}); err != nil {
		t.Fatal(err)
	}
	wantReason(t, w.answer(6), "NAMESPACE_NOT_FOUND")
	// An id is free again once its answer has come.
	w.ids = 0
	for range 100 {
		w.ids = 0
		w.do(&pawlv1.GetTurnRequest{RunId: turn.GetRunId()})
	}
}

func wantReason(t *testing.T, a *pawlv1.DriveAnswer, reason string) {
	t.Helper()
	if got := tally.ReasonOf(status.FromProto(a.GetError())); got != reason {
		t.Errorf("the answer to %d has the reason %s, want %s: %v", a.GetId(), got, reason, a)
	}
}

// TestDriveRights: a command takes the scopes of its RPC, by the rights that hold when
// it is made.
func TestDriveRights(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	outside := r.wheel(as(ctx, "events:external"))
	wantReason(t, outside.do(startRequest()), "SCOPE_MISSING")
	wantReason(t, outside.do(&pawlv1.PauseRunRequest{RunId: "01J99999999999999999999999"}), "SCOPE_MISSING")
	wantReason(t, outside.do(&pawlv1.GetTurnRequest{RunId: "01J99999999999999999999999"}), "RUN_NOT_FOUND")
	driver := r.wheel(as(ctx, "driver"))
	wantReason(t, driver.do(&pawlv1.PauseRunRequest{RunId: "01J99999999999999999999999"}), "RUN_NOT_FOUND")
	tokens := slices.Clone(r.server.cfg.Tokens)
	for i := range tokens {
		if tokens[i].Principal == "driver" {
			tokens[i].Scopes, _ = door.ParseScopes("events:external")
		}
	}
	tokens = slices.DeleteFunc(tokens, func(k door.Token) bool { return k.Principal == "events:external" })
	if err := r.server.SetRights(Rights{Tokens: tokens}); err != nil {
		t.Fatal(err)
	}
	wantReason(t, driver.do(&pawlv1.PauseRunRequest{RunId: "01J99999999999999999999999"}), "SCOPE_MISSING")
	wantError(t, outside.end(), codes.Unauthenticated, "TOKEN_REVOKED")
}

// TestDriveRightsOfWhatWaits: a command that was read, and waits in its lane while
// rights are lowered, is made by those that hold when its turn comes.
func TestDriveRightsOfWhatWaits(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	auth := r.server.auth
	rights := auth.Current.Load()
	var who *door.Caller
	for _, p := range rights.Tokens.Principals {
		if p.Name() == "driver" {
			who = p
		}
	}
	run := "01J99999999999999999999999"
	first, release := make(chan struct{}), make(chan struct{})
	l := newLanes(func(ctx context.Context, in *pawlv1.DriveCommand) []byte {
		if in.GetId() == 1 {
			close(first)
			<-release
		}
		return r.services.runs.commands.make(ctx, in)
	})
	defer l.dismiss()
	var commands []*pawlv1.DriveCommand
	for id := uint64(1); id <= 3; id++ {
		commands = append(commands, commandOf(t, id, &pawlv1.PauseRunRequest{RunId: run}))
	}
	l.take(door.WithRights(ctx, who, rights), commands[:2], 100)
	<-first
	tokens := slices.Clone(r.server.cfg.Tokens)
	for i := range tokens {
		if tokens[i].Principal == "driver" {
			tokens[i].Scopes, _ = door.ParseScopes("events:external")
		}
	}
	if err := r.server.SetRights(Rights{Tokens: tokens}); err != nil {
		t.Fatal(err)
	}
	close(release)
	wantWire(t, l, 2, "SCOPE_MISSING", "SCOPE_MISSING")
	tokens = slices.DeleteFunc(tokens, func(k door.Token) bool { return k.Principal == "driver" })
	if err := r.server.SetRights(Rights{Tokens: tokens}); err != nil {
		t.Fatal(err)
	}
	l.take(door.WithRights(ctx, who, rights), commands[2:], 100)
	wantWire(t, l, 1, "TOKEN_REVOKED")
}

// wantWire takes so many answers of lanes, which are refused for these reasons.
func wantWire(t *testing.T, l *lanes, n int, reasons ...string) {
	t.Helper()
	var answers []answered
	eventually(t, "the commands are answered", func() bool {
		got := l.unsent()
		l.sent(got)
		answers = append(answers, got...)
		return len(answers) == n
	})
	for i, a := range answers {
		got := &pawlv1.DriveResponse{}
		if err := proto.Unmarshal(a.wire, got); err != nil {
			t.Fatal(err)
		}
		wantReason(t, got.GetAnswers()[0], reasons[i])
	}
}

// TestDriveLimit: commands count against what a principal may ask for.
func TestDriveLimit(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, func(c *Config, _ *house.Config) { c.RequestsPerSecond = 2 }), testContext(t)
	w := r.wheel(ctx)
	refused := 0
	for range 3 {
		if w.do(&pawlv1.GetTurnRequest{RunId: "01J99999999999999999999999"}).GetError().GetCode() == int32(codes.ResourceExhausted) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("commands are not limited")
	}
}

// TestDriveLimitOfNoCommand: neither are those that are none, or bad, free.
func TestDriveLimitOfNoCommand(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, func(c *Config, _ *house.Config) { c.RequestsPerSecond = 0.001 }), testContext(t)
	w := r.wheel(ctx)
	const tries = 4
	long := string(make([]byte, maxTraceparentBytes+1))
	refused := 0
	for id := uint64(1); id <= tries; id++ {
		w.ids = id
		if err := w.stream.Send(&pawlv1.DriveRequest{Commands: []*pawlv1.DriveCommand{{Id: id, Traceparent: long[:id%2*uint64(len(long))]}}}); err != nil {
			t.Fatal(err)
		}
		if w.answer(id).GetError().GetCode() == int32(codes.ResourceExhausted) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("commands that are none are not limited")
	}
}

// TestDriveHalfClose: what was sent is answered, then the stream ends well.
func TestDriveHalfClose(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	w := r.wheel(ctx)
	requests := slices.Repeat([]proto.Message{startRequest()}, 200)
	w.send(requests...)
	if err := w.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := w.end(); err != nil || len(w.early) != len(requests) {
		t.Fatalf("%d answers, then %v", len(w.early), err)
	}
}

// TestDriveDrain: what was read is answered, then the stream says that the server goes.
func TestDriveDrain(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	w := r.wheel(ctx)
	ids := w.send(slices.Repeat([]proto.Message{startRequest()}, 100)...)
	w.answer(ids[0])
	ended := make(chan error, 1)
	go func() {
		stop, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ended <- r.server.Shutdown(stop)
	}()
	st := wantError(t, w.end(), codes.Unavailable, "DRAINING")
	if len(w.early) != len(ids)-1 || len(st.Details()) < 2 {
		t.Errorf("%d answers of %d, then %v", len(w.early)+1, len(ids), st.Proto())
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// silentDrive is a stream whose client says nothing until it is told to hang up.
type silentDrive struct {
	driveServer
	hangUp chan struct{}
}

func (s silentDrive) Recv() (*pawlv1.DriveRequest, error) {
	<-s.hangUp
	return nil, status.Error(codes.Canceled, "hung up")
}

// TestDriveReaderEnds: whoever reads a stream is not left behind when the server went first.
func TestDriveReaderEnds(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	if err := r.server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	stream := silentDrive{hangUp: make(chan struct{})}
	label := t.Name() + rand.Text()
	pprof.Do(ctx, pprof.Labels("of", label), func(ctx context.Context) {
		d := &driver{s: r.services.runs, stream: stream, lanes: newLanes(nil)}
		defer d.lanes.dismiss()
		if err := d.serve(ctx); err == nil {
			t.Error("the stream goes on")
		}
	})
	close(stream.hangUp)
	for left := true; left; {
		var out bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&out, 1); err != nil {
			t.Fatal(err)
		}
		if left = strings.Contains(out.String(), label); left && ctx.Err() != nil {
			t.Fatal("the reader of the stream is still there")
		}
	}
}

// TestDriveAnswerThatIsNone: an answer that cannot be encoded is the server's fault, and
// answered as that.
func TestDriveAnswerThatIsNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	wire := r.services.runs.commands.seal(testContext(t), &pawlv1.DriveAnswer{Id: 7, Answer: &pawlv1.DriveAnswer_EmitEvent{
		EmitEvent: &pawlv1.EmitEventResponse{State: "\xff"},
	}})
	got := &pawlv1.DriveResponse{}
	if err := proto.Unmarshal(wire, got); err != nil || len(got.GetAnswers()) != 1 || got.GetAnswers()[0].GetId() != 7 {
		t.Fatalf("%v, %v", got, err)
	}
	wantReason(t, got.GetAnswers()[0], "INTERNAL")
}

// TestDriveFewTurnsAtOnce: what many large answers hold is bounded before they are made.
func TestDriveFewTurnsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const large, runs = 4 << 20, 64
		wide, begun, release := make([]byte, large), make(chan struct{}, runs), make(chan struct{})
		l := newLanes(func(context.Context, *pawlv1.DriveCommand) []byte {
			begun <- struct{}{}
			<-release
			return wide
		})
		defer l.dismiss()
		var commands []*pawlv1.DriveCommand
		for id := uint64(1); id <= runs; id++ {
			commands = append(commands, commandOf(t, id, &pawlv1.GetTurnRequest{RunId: fmt.Sprint(id)}))
		}
		l.take(t.Context(), commands, 100)
		synctest.Wait()
		if n := len(begun); n != driveTurns {
			t.Errorf("%d are made at once", n)
		}
		close(release)
		for made := 0; made < runs; {
			// Everybody waits for this to read.
			synctest.Wait()
			if bound := int64(driveBytes + driveTurns*large); l.owed <= driveBytes && made+len(l.answers) < runs || l.owed > bound {
				t.Fatalf("answers hold %d bytes, want at most %d", l.owed, bound)
			}
			answers := l.unsent()
			made += len(answers)
			l.sent(answers)
		}
	})
}

// TestDriveStalledReader: a client that reads no answers is not read any more, holds a
// bounded amount, and gets every answer once it reads.
func TestDriveStalledReader(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	wide := make([]byte, 64<<10)
	made := 0
	l := newLanes(func(context.Context, *pawlv1.DriveCommand) []byte { return wide })
	defer l.dismiss()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() {
		defer close(release)
		for id := uint64(1); id <= 4*driveWindow; id += 4 {
			commands := []*pawlv1.DriveCommand{{Id: id}, {Id: id + 1}, {Id: id + 2}, {Id: id + 3}}
			if _, bad := l.duplicate(commands); bad || !l.admit(ctx, len(commands)) {
				return
			}
			l.take(ctx, commands, 400)
		}
	}()
	// The requests, and one answer, are beside what was reserved.
	most := int64(driveBytes + 100*driveWindow + len(wide))
	eventually(t, "the reader waits", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.begun == 0 && l.owed+int64(len(wide)) > driveBytes
	})
	l.mu.Lock()
	if held := l.held; held > most || l.taken > driveWindow {
		t.Errorf("%d commands hold %d bytes", l.taken, held)
	}
	l.mu.Unlock()
	for made < 4*driveWindow {
		select {
		case <-l.wake:
		case <-ctx.Done():
			t.Fatalf("%d answers came", made)
		}
		answers := l.unsent()
		made += len(answers)
		l.sent(answers)
	}
	<-release
}
