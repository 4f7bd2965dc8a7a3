package grpcapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

// sidecar is a server inside this process, for the examples.
type sidecar struct {
	packs pawlv1.PackServiceClient
	runs  pawlv1.RunServiceClient
	work  pawlv1.WorkerServiceClient
	close func()
}

// open serves an engine on a store in memory.
func open(with ...func(*services.Config)) *sidecar {
	cfg := services.Config{Config: runtime.Config{
		Store: testkit.NewStore(), Clock: testkit.NewClock(), IDs: &testkit.IDs{}, AllowTools: []string{"*"},
	}}
	for _, w := range with {
		w(&cfg)
	}
	engine, err := services.New(cfg)
	check(err)
	server, err := grpcapi.New(grpcapi.Config{Runtime: engine})
	check(err)
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	conn, err := server.Dial()
	check(err)
	return &sidecar{
		packs: pawlv1.NewPackServiceClient(conn), runs: pawlv1.NewRunServiceClient(conn),
		work: pawlv1.NewWorkerServiceClient(conn),
		close: func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			check(errors.Join(conn.Close(), server.Shutdown(ctx), <-served, engine.Close()))
		},
	}
}

// start registers the pack of the examples and starts a run of it.
func (s *sidecar) start() *pawlv1.StartRunResponse {
	document, err := os.ReadFile("testdata/loop.json")
	check(err)
	_, err = s.packs.RegisterPack(context.Background(), &pawlv1.RegisterPackRequest{Content: document})
	check(err)
	started, err := s.runs.StartRun(context.Background(), &pawlv1.StartRunRequest{
		Pack: "loop", VariablesJson: `{"goal": "ship"}`, Execution: pawlv1.Execution_EXECUTION_CALLER,
	})
	check(err)
	return started
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func Example_validatePack() {
	s := open()
	defer s.close()
	got, err := s.packs.ValidatePack(context.Background(), &pawlv1.ValidatePackRequest{Content: []byte(`id: [`)})
	check(err)
	fmt.Println(got.GetOk(), got.GetDiagnostics()[0].GetSeverity())
	// Output: false SEVERITY_ERROR
}

func Example_registerPack() {
	s := open()
	defer s.close()
	document, err := os.ReadFile("testdata/loop.json")
	check(err)
	for range 2 {
		got, err := s.packs.RegisterPack(context.Background(), &pawlv1.RegisterPackRequest{Content: document})
		check(err)
		fmt.Println(got.GetPack().GetId(), got.GetPack().GetVersion(), got.GetDuplicate())
	}
	// Output:
	// loop 1.0.0 false
	// loop 1.0.0 true
}

func Example_getPack() {
	s := open()
	defer s.close()
	s.start()
	got, err := s.packs.GetPack(context.Background(), &pawlv1.GetPackRequest{Pack: "loop@1.0.0"})
	check(err)
	fmt.Println(got.GetPack().GetName(), got.GetPack().GetAgents(), got.GetTermination().GetBounded())
	// Output: Loop [approver worker] false
}

func Example_listPacks() {
	s := open()
	defer s.close()
	s.start()
	page, err := s.packs.ListPacks(context.Background(), &pawlv1.ListPacksRequest{})
	check(err)
	fmt.Println(len(page.GetPacks()), page.GetNextPageToken() == "")
	// Output: 1 true
}

func Example_getPackGraph() {
	s := open()
	defer s.close()
	s.start()
	graph, err := s.packs.GetPackGraph(context.Background(), &pawlv1.GetPackGraphRequest{Pack: "loop"})
	check(err)
	for _, edge := range graph.GetEdges()[:3] {
		fmt.Println(edge.GetFromState(), edge.GetEvent(), edge.GetToState())
	}
	// Output:
	// check Back work
	// check  work
	// desk Round desk
}

func Example_startRun() {
	s := open()
	defer s.close()
	started := s.start()
	fmt.Println(started.GetRun().GetStatus(), started.GetRun().GetState(), started.GetTurn().GetAttempt())
	// Output: RUN_STATUS_RUNNING work 1
}

func Example_emitEvent() {
	s := open()
	defer s.close()
	turn := s.start().GetTurn()
	moved, err := s.runs.EmitEvent(context.Background(), &pawlv1.EmitEventRequest{
		RunId: turn.GetRunId(), Event: "Ask", EventId: "ask-1", TurnToken: turn.GetToken(),
	})
	check(err)
	fmt.Println(moved.GetState(), moved.GetStatus())
	// Output: gate RUN_STATUS_WAITING
}

// An event that the state does not declare changes nothing; the error lists
// those that it does.
func Example_emitEvent_refused() {
	s := open()
	defer s.close()
	turn := s.start().GetTurn()
	_, err := s.runs.EmitEvent(context.Background(), &pawlv1.EmitEventRequest{
		RunId: turn.GetRunId(), Event: "Nope", TurnToken: turn.GetToken(),
	})
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			fmt.Println(info.GetReason(), info.GetMetadata()["allowed"])
		}
	}
	// Output: UNKNOWN_EVENT Again, Ask, Check, Finish, Share
}

func Example_sendInput() {
	s := open()
	defer s.close()
	run := s.start().GetRun()
	sent, err := s.runs.SendInput(context.Background(), &pawlv1.SendInputRequest{
		RunId: run.GetRunId(), MessageId: "m-1", Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "and be quick"}}},
	})
	check(err)
	fmt.Println(sent.GetQueued())
	// Output: true
}

func Example_getTurn() {
	s := open()
	defer s.close()
	run := s.start().GetRun()
	turn, err := s.runs.GetTurn(context.Background(), &pawlv1.GetTurnRequest{RunId: run.GetRunId()})
	check(err)
	fmt.Printf("%q\n", turn.GetSystemPrompt())
	fmt.Println(turn.GetAllowedEvents())
	// Output:
	// "Goal: ship. Note: "
	// [Again Ask Check Finish Share]
}

func Example_setArtifacts() {
	s := open()
	defer s.close()
	turn := s.start().GetTurn()
	set, err := s.runs.SetArtifacts(context.Background(), &pawlv1.SetArtifactsRequest{
		RunId: turn.GetRunId(), TurnToken: turn.GetToken(),
		Artifacts: []*pawlv1.ArtifactWrite{{Name: "note", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: "half way"}}}},
	})
	check(err)
	fmt.Println(set.GetSeq(), set.GetRecord().GetArtifactsSet().GetArtifactsWritten()[0].GetValue().GetText())
	// Output: 2 half way
}

func Example_completeTurn() {
	s := open()
	defer s.close()
	turn := s.start().GetTurn()
	done, err := s.runs.CompleteTurn(context.Background(), &pawlv1.CompleteTurnRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Output: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "done"}}}, Event: "Finish",
	})
	check(err)
	fmt.Println(done.GetState(), done.GetTransition().GetTransition().GetEvent())
	// Output: done Finish
}

func Example_failTurn() {
	s := open()
	defer s.close()
	turn := s.start().GetTurn()
	failed, err := s.runs.FailTurn(context.Background(), &pawlv1.FailTurnRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Error: &pawlv1.Fault{Code: "MODEL_UNAVAILABLE"}, Retryable: true,
	})
	check(err)
	fmt.Println("next attempt", failed.GetRecord().GetTurnFailed().GetNext())
	// Output: next attempt 2
}

func Example_requestStep() {
	s := open()
	defer s.close()
	turn := s.start().GetTurn()
	asked, err := s.runs.RequestStep(context.Background(), &pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "run_tests", PayloadJson: `{"path": "."}`}, {Tool: "rm"}},
	})
	check(err)
	fmt.Println(asked.GetOutcomes()[0].GetStep().GetStatus(), asked.GetOutcomes()[1].GetDenial().GetCode())
	// Output: STEP_STATUS_PENDING TOOL_NOT_LISTED
}

func Example_resolveStep() {
	s := open()
	defer s.close()
	turn := s.start().GetTurn()
	ctx := context.Background()
	_, err := s.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "write_file"}},
	})
	check(err)
	for range 2 {
		got, err := s.runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{
			RunId: turn.GetRunId(), Step: 1, Tool: "write_file", Attempt: 1, TurnToken: turn.GetToken(),
			Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: `{"bytes": 12}`},
		})
		check(err)
		fmt.Println(got.GetDisposition())
	}
	// Output:
	// DISPOSITION_ACCEPTED
	// DISPOSITION_IGNORED_DUPLICATE
}

func Example_suspendTurn() {
	s := open()
	defer s.close()
	turn := s.start().GetTurn()
	ctx := context.Background()
	_, err := s.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "write_file"}},
	})
	check(err)
	got, err := s.runs.SuspendTurn(ctx, &pawlv1.SuspendTurnRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(),
	})
	check(err)
	fmt.Println(got.GetStatus(), got.GetRecord().GetTurnSuspended().GetPending())
	// Output: RUN_STATUS_WAITING [1]
}

func Example_streamTransitions() {
	s := open()
	defer s.close()
	run := s.start().GetRun().GetRunId()
	ctx := context.Background()
	_, err := s.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run})
	check(err)
	stream, err := s.runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{RunId: run, Follow: true})
	check(err)
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		check(err)
		record := item.GetRecord()
		fmt.Println(record.GetPrevSeq(), record.GetCause(), record.GetTransition().GetToState(), record.GetEnded().GetStatus())
	}
	// Output:
	// 0 CAUSE_ENTRY work RUN_STATUS_UNSPECIFIED
	// 1 CAUSE_UNSPECIFIED  RUN_STATUS_CANCELLED
}

func Example_listTransitions() {
	s := open()
	defer s.close()
	run := s.start().GetRun().GetRunId()
	page, err := s.runs.ListTransitions(context.Background(), &pawlv1.ListTransitionsRequest{RunId: run})
	check(err)
	fmt.Println(len(page.GetRecords()), page.GetRecords()[0].GetTransition().GetToState())
	// Output: 1 work
}

func Example_getRun() {
	s := open()
	defer s.close()
	run := s.start().GetRun().GetRunId()
	got, err := s.runs.GetRun(context.Background(), &pawlv1.GetRunRequest{RunId: run, AtSeq: 1})
	check(err)
	fmt.Println(got.GetRun().GetVisits(), got.GetRun().GetTotalVisits())
	// Output: map[work:1] 1
}

func Example_listRuns() {
	s := open()
	defer s.close()
	s.start()
	page, err := s.runs.ListRuns(context.Background(), &pawlv1.ListRunsRequest{
		Filter: &pawlv1.RunFilter{Statuses: []pawlv1.RunStatus{pawlv1.RunStatus_RUN_STATUS_RUNNING}},
	})
	check(err)
	fmt.Println(len(page.GetRuns()))
	// Output: 1
}

func Example_waitRun() {
	s := open()
	defer s.close()
	run := s.start().GetRun().GetRunId()
	got, err := s.runs.WaitRun(context.Background(), &pawlv1.WaitRunRequest{RunId: run, Timeout: durationpb.New(time.Millisecond)})
	check(err)
	fmt.Println(got.GetTimedOut(), got.GetRun().GetStatus())
	// Output: true RUN_STATUS_RUNNING
}

func Example_pauseRun() {
	s := open()
	defer s.close()
	run := s.start().GetRun().GetRunId()
	ctx := context.Background()
	paused, err := s.runs.PauseRun(ctx, &pawlv1.PauseRunRequest{RunId: run, Note: "for the night"})
	check(err)
	resumed, err := s.runs.ResumeRun(ctx, &pawlv1.ResumeRunRequest{RunId: run})
	check(err)
	fmt.Println(paused.GetRecord().GetPaused().GetNote(), resumed.GetSeq())
	// Output: for the night 3
}

func Example_cancelRun() {
	s := open()
	defer s.close()
	run := s.start().GetRun().GetRunId()
	got, err := s.runs.CancelRun(context.Background(), &pawlv1.CancelRunRequest{RunId: run, Note: "not wanted any more"})
	check(err)
	fmt.Println(got.GetStatus())
	// Output: RUN_STATUS_CANCELLED
}

// A token file gives principals their scopes.
func Example_readTokens() {
	file, err := os.CreateTemp("", "tokens")
	check(err)
	defer os.Remove(file.Name())
	_, err = fmt.Fprintln(file, "approvals  runs:read,events:external@red ", auth.Digested(auth.NewSecret()))
	check(errors.Join(err, file.Close()))
	tokens, err := auth.ReadTokens(file.Name())
	check(err)
	fmt.Println(tokens[0].Principal, tokens[0].Scopes, tokens[0].Namespaces)
	// Output: approvals runs:read events:external [red]
}

// A worker registers, gives credits, gets turns and answers on the same stream.
func Example_work() {
	s := open()
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	document, err := os.ReadFile("testdata/loop.json")
	check(err)
	_, err = s.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: document})
	check(err)
	_, err = s.runs.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: "loop", VariablesJson: `{"goal": "ship"}`, Execution: pawlv1.Execution_EXECUTION_WORKERS,
	})
	check(err)
	stream, err := s.work.Work(ctx)
	check(err)
	check(stream.Send(&pawlv1.WorkRequest{Id: 1, Item: &pawlv1.WorkRequest_Register{
		Register: &pawlv1.WorkerRegistration{WorkerId: "w", Prompts: []string{"*"}, TurnCapacity: 1},
	}}))
	check(stream.Send(&pawlv1.WorkRequest{Credits: &pawlv1.WorkCredits{Turns: 1}}))
	for {
		got, err := stream.Recv()
		check(err)
		switch item := got.GetItem().(type) {
		case *pawlv1.WorkResponse_Turn:
			lease := item.Turn.GetLease()
			fmt.Println("a turn of", item.Turn.GetTurn().GetTurn().GetState())
			check(stream.Send(&pawlv1.WorkRequest{Id: 2, Item: &pawlv1.WorkRequest_CompleteTurn{
				CompleteTurn: &pawlv1.CompleteTurnRequest{
					RunId: lease.GetRunId(), TurnSeq: lease.GetTurnSeq(), Attempt: lease.GetAttempt(), TurnToken: lease.GetToken(),
					Event: "Again",
				},
			}}))
		case *pawlv1.WorkResponse_Receipt:
			fmt.Println("request", item.Receipt.GetId(), "is done:", item.Receipt.GetCompleteTurn() != nil)
			check(stream.CloseSend())
			return
		}
	}
	// Output:
	// a turn of work
	// request 2 is done: true
}
