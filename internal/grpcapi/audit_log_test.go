package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// stream counts what was sent.
type stream struct {
	grpc.ServerStream
	sent int
}

func (s *stream) Context() context.Context { return context.Background() }

func (s *stream) SendMsg(any) error {
	s.sent++
	return nil
}

// TestADecisionIsInItsLine: the line about a decision has the step and the verdict, and no payload.
func TestADecisionIsInItsLine(t *testing.T) {
	t.Parallel()
	got := auditSubject(&pawlv1.DecideStepRequest{
		Namespace: "shop", RunId: "01J00000000000000000000001", Step: 3, Decision: pawlv1.StepDecision_STEP_DECISION_EDIT, PayloadJson: `{"amount":1}`, RequestId: "d1",
	})
	if want := (subject{namespace: "shop", resource: "01J00000000000000000000001", id: "d1", step: 3, decision: "EDIT"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestADecisionByMessageIsInItsLine: the line about a message of A2A that decides has the step and the verdict as well, in each encoding of
// JSON in a part. A message that is no valid decision has neither.
func TestADecisionByMessageIsInItsLine(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0", 64)
	for text, want := range map[string]string{
		`{"step":3,"digest":"` + digest + `","decision":"approve"}`:                      "3 APPROVE",
		`{"step":3,"digest":"` + digest + `","decision":"deny","reason":"not this one"}`: "3 DENY",
		`{"step":3,"digest":"` + digest + `","decision":"edit","payload":{"amount":1}}`:  "3 EDIT",
		`{"step":3,"digest":"` + digest + `","decision":"the secret"}`:                   "0 ",
		`{"step":3,"digest":"short","decision":"approve"}`:                               "0 ",
		`"words"`: "0 ",
	} {
		value := `{"` + protocol.ApprovalURI + `":` + text + `}`
		for _, part := range []*a2apb.Part{
			protocol.PartToProto(&machine.Part{Kind: machine.PartJSON, Data: []byte(value)}),
			{Content: &a2apb.Part_Text{Text: value}, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{protocol.ExactURI: structpb.NewBoolValue(true)}}},
		} {
			got := auditSubject(&a2apb.SendMessageRequest{Message: &a2apb.Message{MessageId: "m", TaskId: "T", Parts: []*a2apb.Part{part}}})
			if decided := fmt.Sprint(got.step) + " " + got.decision; decided != want || got.resource != "T" || got.id != "m" {
				t.Errorf("%v: %+v, want %s", part, got, want)
			}
		}
	}
}

// TestTheStoreLeavesWithALine: a backup has a line in the audit log before its first byte is sent, and a
// second one at its end. Without the first line nothing is sent. A stream that sends nothing of the store has
// one line.
func TestTheStoreLeavesWithALine(t *testing.T) {
	t.Parallel()
	operations := map[string]runtime.Operation{}
	for _, op := range policy.Operations {
		operations[op.Name] = op
	}
	dir := filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(audit.Options{Dir: dir, MaxBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	trail := newAuditLogger(log, operations)
	outcomes := func() (found []string) {
		if _, err := audit.Verify(dir, nil, func(e *audit.Entry, _ string, _ []byte) error {
			found = append(found, e.Outcome)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	send := func(method string, seen func()) (*stream, error) {
		to := &stream{}
		err := trail.Stream(nil, to, &grpc.StreamServerInfo{FullMethod: method, IsServerStream: true}, func(_ any, s grpc.ServerStream) error {
			for range 2 {
				if err := s.SendMsg(&pawlv1.BackupResponse{}); err != nil {
					return err
				}
				seen()
			}
			return nil
		})
		return to, err
	}
	if _, err := send(pawlv1.StoreService_Backup_FullMethodName, func() {
		if got := outcomes(); !slices.Equal(got, []string{"BEGUN"}) {
			t.Errorf("with its first bytes: %v", got)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := send(pawlv1.WorkerService_Work_FullMethodName, func() {}); err != nil {
		t.Fatal(err)
	}
	if got := outcomes(); !slices.Equal(got, []string{"BEGUN", "OK", "OK"}) {
		t.Errorf("lines: %v", got)
	}
	// A stream whose handler panics has a line, too.
	func() {
		defer func() { _ = recover() }()
		_, _ = send(pawlv1.WorkerService_Work_FullMethodName, func() { panic("here") })
	}()
	if got := outcomes(); !slices.Equal(got, []string{"BEGUN", "OK", "OK", "INTERNAL"}) {
		t.Errorf("lines after a panic: %v", got)
	}
	// The next line cannot be written. The log does not know this yet.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	to, err := send(pawlv1.StoreService_Backup_FullMethodName, func() {})
	if refusal, ok := errors.AsType[*machine.Error](err); !ok || refusal.Reason != "AUDIT_UNAVAILABLE" || to.sent != 0 {
		t.Errorf("%d messages, %v", to.sent, err)
	}
	_ = log.Close()
}
