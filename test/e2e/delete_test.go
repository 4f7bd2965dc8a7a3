package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit"
)

// extraFields is what a call needs besides the run.
var extraFields = map[string]string{
	"ForkRun": `"atSeq":1`, "EmitEvent": `"event":"Again","eventId":"e"`, "SendInput": `"parts":[{"text":"x"}],"messageId":"m"`,
	"ShowTurn": `"turnSeq":1`, "SetArtifacts": `"artifacts":[{"name":"mark","value":{"text":"x"}}]`,
	"CompleteTurn": `"turnSeq":1,"attempt":1,"event":"Again"`, "FailTurn": `"turnSeq":1,"attempt":1,"error":{"code":"t","message":"m"}`,
	"WriteOutput": `"turnSeq":1,"attempt":1,"piece":{"id":"p","parts":[{"text":"x"}]},"requestId":"r"`, "SuspendTurn": `"turnSeq":1,"attempt":1`,
	"RequestStep": `"turnSeq":1,"attempt":1,"requests":[{"key":"k","tool":"t","payloadJson":"{}"}]`,
	"ResolveStep": `"step":1,"tool":"t","attempt":1,"resultJson":"1"`, "WaitRun": `"timeout":"1s"`, "EraseRun": `"reason":"r"`,
	"RequestModel": `"turnSeq":1,"attempt":1,"round":1,"request":{"model":"m"}`, "AnswerModel": `"step":1,"attempt":1,"answer":{"refusal":"no"}`,
	"UpdateModelCall": `"step":1,"attempt":1,"responseId":"r"`, "GetModelStep": `"step":1`,
}

// ended starts a run and cancels it.
func endedRun(ctx context.Context, t *testing.T, client pawlv1.RunServiceClient, id string) string {
	t.Helper()
	started, err := client.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: id})
	if err != nil {
		t.Fatal(err)
	}
	run := started.GetRun().GetRunId()
	if _, err := client.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run}); err != nil {
		t.Fatal(err)
	}
	return run
}

// TestDeletedRunIsTypedEverywhere: every call that names a run says of one that was deleted
// that it was, and so does the start that is repeated; before and after a restart.
func TestDeletedRunIsTypedEverywhere(t *testing.T) {
	t.Parallel()
	// With metrics the engine's store is one that is timed.
	s, ctx := newSidecar(t, "--pack", "testdata/loop.pack.yaml", "--metrics", "127.0.0.1:0"), deadline(t, 5*patience)
	s.start()
	conn := s.dial()
	client := pawlv1.NewRunServiceClient(conn)
	start := &pawlv1.StartRunRequest{Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: "once"}
	started, err := client.StartRun(ctx, start)
	if err != nil {
		t.Fatal(err)
	}
	run := started.GetRun().GetRunId()
	if _, err := client.DeleteRun(ctx, &pawlv1.DeleteRunRequest{RunId: run}); play.Reason(err) != "RUN_NOT_ENDED" {
		t.Fatalf("a run that goes on: %v", err)
	}
	if _, err := client.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run}); err != nil {
		t.Fatal(err)
	}
	other := endedRun(ctx, t, client, "other")
	deleted, err := client.DeleteRun(ctx, &pawlv1.DeleteRunRequest{RunId: run})
	if err != nil || deleted.GetDuplicate() || deleted.GetRecords() == 0 || deleted.GetStatus() != pawlv1.RunStatus_RUN_STATUS_CANCELLED {
		t.Fatalf("%v, %v", deleted, err)
	}
	for range 2 {
		if _, err := client.StartRun(ctx, start); play.Reason(err) != "RUN_DELETED" {
			t.Errorf("its start, repeated: %v", err)
		}
		again, err := client.DeleteRun(ctx, &pawlv1.DeleteRunRequest{RunId: run})
		if err != nil || !again.GetDuplicate() || !again.GetDeletedAt().AsTime().Equal(deleted.GetDeletedAt().AsTime()) {
			t.Errorf("again: %v, %v", again, err)
		}
		if n := askEverything(ctx, t, conn, run); n < 18 {
			t.Errorf("only %d calls were tried", n)
		}
		if got := play.Journal(ctx, t, client, other); len(got) == 0 {
			t.Error("another run is gone, too")
		}
		s.kill()
		s.check()
		s.start()
	}
}

// askEverything makes each call of RunService that names a run.
func askEverything(ctx context.Context, t *testing.T, conn *grpc.ClientConn, run string) (tried int) {
	methods := pawlv1.File_pawl_v1_run_proto.Services().ByName("RunService").Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		name := string(m.Name())
		if m.IsStreamingClient() || m.Input().Fields().ByName("run_id") == nil || name == "DeleteRun" {
			continue
		}
		in := dynamicpb.NewMessage(m.Input())
		if err := protojson.Unmarshal(fmt.Appendf(nil, `{"runId":%q,%s}`, run, extraFields[name]), in); err != nil && extraFields[name] != "" {
			t.Fatalf("%s: %v", name, err)
		} else if extraFields[name] == "" {
			in.Set(m.Input().Fields().ByName("run_id"), protoreflect.ValueOfString(run))
		}
		tried++
		err := callOnce(ctx, conn, m, in)
		if name == "ResolveStep" {
			// A caller that does not hold the step gets this error first, for any run.
			if play.Reason(err) != "STEP_NOT_HELD" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if status.Code(err) != codes.NotFound || play.Reason(err) != "RUN_DELETED" {
			t.Errorf("%s: %v", name, err)
		}
	}
	return tried
}

func callOnce(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, in *dynamicpb.Message) error {
	path, out := fmt.Sprintf("/pawl.v1.RunService/%s", m.Name()), dynamicpb.NewMessage(m.Output())
	if !m.IsStreamingServer() {
		return conn.Invoke(ctx, path, in, out)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(in); err != nil {
		return err
	}
	return stream.RecvMsg(out)
}

// TestDeletesUnderKills: of runs that come, end and are deleted while the process is killed
// again and again, what was acknowledged as deleted stays so and is never begun again, and
// what was not is whole.
func TestDeletesUnderKills(t *testing.T) {
	t.Parallel()
	const kills, clients = 6, 6
	s, ctx := newSidecar(t, "--pack", "testdata/loop.pack.yaml"), deadline(t, 5*patience)
	s.start()
	client := s.runs()
	var mu sync.Mutex
	deleted, remaining := map[string]string{}, map[string]string{}
	var done atomic.Int64
	working, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for i := 0; working.Err() == nil; i++ {
				id := fmt.Sprintf("%d-%d", n, i)
				run, gone, err := lifeOf(ctx, client, id, i%3 > 0)
				if err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
				mu.Lock()
				if gone {
					deleted[id] = run
				} else {
					remaining[id] = run
				}
				mu.Unlock()
				done.Add(1)
			}
		})
	}
	for n := range kills {
		play.AwaitCount(ctx, t, &done, int64((n+1)*20))
		s.kill()
		s.start()
	}
	stop()
	all.Wait()
	for id, run := range deleted {
		if _, err := client.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run}); play.Reason(err) != "RUN_DELETED" {
			t.Errorf("%s was deleted: %v", id, err)
		}
		if _, err := client.StartRun(ctx, startOfLife(id)); play.Reason(err) != "RUN_DELETED" {
			t.Errorf("%s is begun again: %v", id, err)
		}
	}
	for id, run := range remaining {
		proof, err := client.VerifyRun(ctx, &pawlv1.VerifyRunRequest{RunId: run})
		if err != nil || !proof.GetOk() {
			t.Errorf("%s was not deleted: %v, %v", id, proof, err)
		}
	}
	if len(deleted) < kills || len(remaining) < kills {
		t.Errorf("%d deleted and %d kept in %d kills", len(deleted), len(remaining), kills)
	}
	s.kill()
	s.check()
	testkit.ReportTried(t, kills, "kills")
	t.Logf("%d runs deleted, %d kept", len(deleted), len(remaining))
}

func startOfLife(id string) *pawlv1.StartRunRequest {
	return &pawlv1.StartRunRequest{Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: id}
}

// lifeOf starts a run, ends it and perhaps deletes it.
func lifeOf(ctx context.Context, client pawlv1.RunServiceClient, id string, remove bool) (run string, gone bool, err error) {
	started, err := play.Retry(ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
		return client.StartRun(ctx, startOfLife(id))
	})
	if err != nil {
		return "", false, fmt.Errorf("start: %w", err)
	}
	run = started.GetRun().GetRunId()
	_, err = play.Retry(ctx, func(ctx context.Context) (*pawlv1.CancelRunResponse, error) {
		return client.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run, RequestId: "end"})
	})
	if err != nil || !remove {
		return run, false, err
	}
	_, err = play.Retry(ctx, func(ctx context.Context) (*pawlv1.DeleteRunResponse, error) {
		return client.DeleteRun(ctx, &pawlv1.DeleteRunRequest{RunId: run})
	})
	return run, err == nil, err
}
