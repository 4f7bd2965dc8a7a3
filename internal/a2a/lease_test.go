package a2a_test

import (
	"math"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
)

// TestLeasesThatAreNone: a delegation whose lease is not a valid amount starts no run. Otherwise the run
// would have no limit, or a limit that no caller intended.
func TestLeasesThatAreNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, lease := range map[string]*structpb.Value{
		"below zero":         object("cost_micro_usd", structpb.NewNumberValue(-1)),
		"tokens below zero":  object("tokens", structpb.NewNumberValue(-5)),
		"half of a token":    object("tokens", structpb.NewNumberValue(0.5)),
		"more than there is": object("cost_micro_usd", structpb.NewNumberValue(1e300)),
		"endless":            object("cost_micro_usd", structpb.NewNumberValue(math.Inf(1))),
		"a word":             object("cost_micro_usd", structpb.NewStringValue("1")),
		"no object":          structpb.NewNumberValue(5),
	} {
		req := message("crew/writer", "lease "+name)
		req.Message.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{protocol.DelegationURI: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"run": structpb.NewStringValue("01J99999999999999999999999"), "step": structpb.NewNumberValue(1), "attempt": structpb.NewNumberValue(1),
			"depth": structpb.NewNumberValue(0), "lease": lease,
		}})}}
		_, err := r.client.SendMessage(r.context("", "a2a-extensions", protocol.DelegationURI), req)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), protocol.DelegationURI) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if tasks, err := r.client.ListTasks(r.context(""), &a2apb.ListTasksRequest{Tenant: "crew/writer"}); err != nil || len(tasks.GetTasks()) != 0 {
		t.Errorf("begun: %v, %v", tasks, err)
	}
}

func object(name string, value *structpb.Value) *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{name: value}})
}
