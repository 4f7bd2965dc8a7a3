package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/server"
)

// localClient is a client of a sidecar in this process, with the pack of the examples.
func localClient(t *testing.T) *pawl.Client {
	t.Helper()
	local, err := server.StartLocal(config.Default(), runtime.SystemClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	client, err := pawl.NewClient(pawl.Options{Conn: local.Conn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	content, err := os.ReadFile("../../testdata/packs/rfc0009-3-self-correcting.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.RegisterPack(t.Context(), content, "pack.json"); err != nil {
		t.Fatal(err)
	}
	return client
}

// correctingTurn fails once and gets it right then.
func correctingTurn(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
	turn := t.Assignment.GetTurn()
	switch {
	case turn.GetTerminal():
		return pawl.Completion{}, nil
	case turn.GetTurn().GetVisit() == 1:
		return pawl.Completion{Event: "Error"}, nil
	}
	return pawl.Completion{Event: "Success"}, nil
}

func TestClientRuns(t *testing.T) {
	client := localClient(t)
	request := &pawlv1.StartRunRequest{Pack: "self-correcting", RequestId: "one"}
	got, err := client.Run(t.Context(), request, pawl.Serving{Turn: correctingTurn})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || got.GetRun().GetTotalVisits() != 3 {
		t.Fatalf("run = %v", got.GetRun())
	}
	again, err := client.Run(t.Context(), request, pawl.Serving{Turn: correctingTurn})
	if err != nil || again.GetRun().GetRunId() != got.GetRun().GetRunId() {
		t.Fatalf("again = %v, %v", again.GetRun(), err)
	}
	var to []string
	for record, err := range client.Attach(got.GetRun().GetRunId()).Transitions(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if moved := record.GetTransition(); moved != nil {
			to = append(to, moved.GetToState())
		}
	}
	if want := []string{"work", "work", "complete"}; !slices.Equal(to, want) {
		t.Fatalf("states = %v, want %v", to, want)
	}
}

func TestClientMovesARun(t *testing.T) {
	client, ctx := localClient(t), t.Context()
	run, err := client.Start(ctx, &pawlv1.StartRunRequest{Pack: "self-correcting"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Pause(ctx, "a look"); err != nil {
		t.Fatal(err)
	}
	if paused, err := run.Info(ctx); err != nil || !paused.GetRun().GetPaused() {
		t.Fatalf("paused = %v, %v", paused.GetRun(), err)
	}
	if _, err := run.Resume(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := run.SendInput(ctx, &pawlv1.SendInputRequest{Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "more"}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Cancel(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if ended, err := run.Wait(ctx, pawlv1.WaitUntil_WAIT_UNTIL_TERMINAL); err != nil || ended.GetStatus() != pawlv1.RunStatus_RUN_STATUS_CANCELLED {
		t.Fatalf("ended = %v, %v", ended, err)
	}
	_, err = run.Emit(ctx, &pawlv1.EmitEventRequest{Event: "Success"})
	var refused *pawl.Error
	if !errors.As(err, &refused) || refused.Reason != "RUN_TERMINAL" || refused.Advice() != pawl.GiveUp || status.Code(err) != refused.Code {
		t.Fatalf("emit = %v", err)
	}
	if _, err := client.Attach("01J9Z3NDEKTSV4RRFFQ69G5FAV").Info(ctx); pawl.ErrorOf(err).Reason != "RUN_NOT_FOUND" {
		t.Fatalf("unknown = %v", err)
	}
}

func TestClientIsClosed(t *testing.T) {
	client := localClient(t)
	begun := make(chan struct{})
	stuck := func(ctx context.Context, _ *pawl.Turn) (pawl.Completion, error) {
		close(begun)
		<-ctx.Done()
		return pawl.Completion{}, ctx.Err()
	}
	ended := make(chan error, 1)
	go func() {
		_, err := client.Run(t.Context(), &pawlv1.StartRunRequest{Pack: "self-correcting"}, pawl.Serving{Turn: stuck})
		ended <- err
	}()
	<-begun
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "closed") {
		t.Fatalf("run = %v", err)
	}
}

// runService answers StartRun by a function.
type runService struct {
	pawlv1.UnimplementedRunServiceServer
	start func(*pawlv1.StartRunRequest) (*pawlv1.StartRunResponse, error)
}

func (s *runService) StartRun(_ context.Context, in *pawlv1.StartRunRequest) (*pawlv1.StartRunResponse, error) {
	return s.start(in)
}

// served is a client of a server that answers StartRun by a function.
func servedClient(t *testing.T, o pawl.Options, start func(*pawlv1.StartRunRequest) (*pawlv1.StartRunResponse, error)) *pawl.Client {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pawlv1.RegisterRunServiceServer(server, &runService{start: start})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	o.Addr = listener.Addr().String()
	client, err := pawl.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func statusError(t *testing.T, code codes.Code, reason string, after time.Duration) error {
	t.Helper()
	s, err := status.New(code, "told").WithDetails(&errdetails.ErrorInfo{Reason: reason, Metadata: map[string]string{"limit": "3"}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

// A repeat is the same request: a run is begun once, however often its answer is lost.
func TestCallsAreRepeated(t *testing.T) {
	var ids []string
	client := servedClient(t, pawl.Options{}, func(in *pawlv1.StartRunRequest) (*pawlv1.StartRunResponse, error) {
		ids = append(ids, in.GetRequestId())
		switch len(ids) {
		case 1:
			return nil, status.Error(codes.Unavailable, "away")
		case 2:
			return nil, statusError(t, codes.ResourceExhausted, "LIMIT_RATE", time.Millisecond)
		}
		return &pawlv1.StartRunResponse{Run: &pawlv1.Run{RunId: "01J9Z3NDEKTSV4RRFFQ69G5FAV"}}, nil
	})
	run, err := client.Start(t.Context(), &pawlv1.StartRunRequest{Pack: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if run.ID() != "01J9Z3NDEKTSV4RRFFQ69G5FAV" || len(ids) != 3 || ids[0] == "" || ids[0] != ids[1] || ids[1] != ids[2] {
		t.Fatalf("run %s, ids %q", run.ID(), ids)
	}
}

func TestCallsAreGivenUp(t *testing.T) {
	var calls atomic.Int32
	client := servedClient(t, pawl.Options{RetryFor: 50 * time.Millisecond}, func(in *pawlv1.StartRunRequest) (*pawlv1.StartRunResponse, error) {
		calls.Add(1)
		if in.GetPack() == "unknown" {
			return nil, statusError(t, codes.NotFound, "PACK_NOT_FOUND", 0)
		}
		return nil, statusError(t, codes.ResourceExhausted, "LIMIT_RATE", time.Hour)
	})
	for pack, want := range map[string]string{"unknown": "PACK_NOT_FOUND", "busy": "LIMIT_RATE"} {
		_, err := client.Start(t.Context(), &pawlv1.StartRunRequest{Pack: pack})
		var got *pawl.Error
		if !errors.As(err, &got) || got.Reason != want || got.Metadata["limit"] != "3" || got.Error() != want+": told" {
			t.Errorf("%s: %v", pack, err)
		}
	}
	if calls.Load() != 2 {
		t.Errorf("%d calls, want 2", calls.Load())
	}
}

func TestBadOptions(t *testing.T) {
	if _, err := pawl.NewClient(pawl.Options{Timeout: -1}); err == nil {
		t.Error("a negative Timeout was taken")
	}
	t.Setenv("PAWL_TOKEN_FILE", "/nonexistent/token")
	client := servedClient(t, pawl.Options{RetryFor: time.Millisecond}, func(*pawlv1.StartRunRequest) (*pawlv1.StartRunResponse, error) {
		return &pawlv1.StartRunResponse{}, nil
	})
	if _, err := client.Start(t.Context(), &pawlv1.StartRunRequest{Pack: "p"}); err == nil || !strings.Contains(err.Error(), "PAWL_TOKEN_FILE") {
		t.Errorf("without the file: %v", err)
	}
}

// The advice for each row of docs/reference/errors.md is the page's.
func TestAdviceIsThatOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## What to do with an error\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| ([A-Za-z_]+) \| ([^|]+) \| (repeat|reconnect|give up) \|`).FindAllStringSubmatch(section, -1)
	if len(rows) < 11 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		var code codes.Code
		if row[1] == "any" {
			code = codes.DataLoss
		} else if err := json.Unmarshal([]byte(`"`+row[1]+`"`), &code); err != nil {
			t.Fatal(err)
		}
		for _, e := range errorsOf(code, strings.TrimSpace(row[2])) {
			if got := e.Advice(); string(got) != row[3] {
				t.Errorf("%s with %q: %s, the page says %s", row[1], e.Reason, got, row[3])
			}
		}
	}
}

// errorsOf are errors that the words of a row mean.
func errorsOf(code codes.Code, words string) []*pawl.Error {
	switch words {
	case "any, or no `ErrorInfo`", "any":
		return []*pawl.Error{{Code: code}, {Code: code, Reason: "OTHER"}}
	case "no `ErrorInfo`":
		return []*pawl.Error{{Code: code}}
	case "any, with `RetryInfo`":
		return []*pawl.Error{{Code: code, Reason: "OTHER", RetryAfter: time.Second}}
	}
	var all []*pawl.Error
	for _, name := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(words, -1) {
		all = append(all, &pawl.Error{Code: code, Reason: name[1]})
	}
	return all
}
