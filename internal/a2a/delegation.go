package a2a

import (
	"encoding/json"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// delegation is the object of [DelegationURI] in the metadata of a message.
type delegation struct {
	// Run, Step and Attempt are the sender's.
	Run     string `json:"run"`
	Step    uint32 `json:"step"`
	Attempt int    `json:"attempt"`
	// Depth is the sender's own; the new run's is one more.
	Depth int `json:"depth"`
	// WallTimeMillis is what is left of the sender's wall time; 0 = it has no bound.
	WallTimeMillis int64 `json:"wall_time_ms"`
	// Traceparent is W3C trace context.
	Traceparent string `json:"traceparent"`
	// Origin is the base URL of the sender's sidecar.
	Origin string `json:"origin"`
}

// delegate makes a start one of a child run.
func delegate(start *runtime.StartRequest, msg *a2apb.Message) error {
	value := msg.GetMetadata().GetFields()[DelegationURI]
	if value == nil {
		return nil
	}
	var d delegation
	if json.Unmarshal(valueFromProto(value), &d) != nil || d.Run == "" || d.Step == 0 || d.Attempt < 1 || d.Depth < 0 || d.WallTimeMillis < 0 {
		return failAt(invalidParams, "message.metadata", "%s: want an object with run, step, attempt and depth", DelegationURI)
	}
	if d.Depth >= machine.MaxDepth {
		return &machine.Refusal{
			Code: machine.CodeResourceExhausted, Reason: "MAX_DEPTH", Field: "message.metadata",
			Message: "delegations are nested too deep", Limit: machine.MaxDepth, Got: int64(d.Depth) + 1,
		}
	}
	start.Parent = &machine.Parent{RunID: d.Run, Step: d.Step, Attempt: d.Attempt, Origin: d.Origin}
	if d.Traceparent != "" {
		start.Traceparent = d.Traceparent
	}
	start.Depth, start.MaxWallTime = d.Depth+1, time.Duration(d.WallTimeMillis)*time.Millisecond
	return nil
}
