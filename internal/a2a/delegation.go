package a2a

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// delegation is the object [protocol.DelegationURI] in the metadata of a message.
type delegation struct {
	// Run, Step and Attempt identify the step of the other run that sends the message.
	Run     string `json:"run"`
	Step    uint32 `json:"step"`
	Attempt int    `json:"attempt"`
	// Depth is the depth of the sender's run. The depth of the new run is one more.
	Depth int `json:"depth"`
	// WallTimeMillis is the remaining wall time of the sender in milliseconds. 0 means that there is no
	// limit.
	WallTimeMillis int64 `json:"wall_time_ms"`
	// Lease is the budget that the sender has reserved for the new run. nil means that there is no
	// limit.
	Lease *protocol.Lease `json:"lease"`
	// Policy lists the tools that the new run may call. nil means that there is no list.
	Policy *protocol.Policy `json:"policy"`
	// Payer names the accounts (budgets over many runs) in which the new run is counted. It is read only in messages
	// within this sidecar. If it is nil, the usage is counted when the sender's step is answered.
	Payer *protocol.Payer `json:"payer"`
	// Execution is SIDECAR if the sidecar itself executes the sender's run, else "". A new run in the same sidecar is
	// executed in the same way.
	Execution string `json:"execution"`
	// Traceparent is the W3C trace context of the sender.
	Traceparent string `json:"traceparent"`
	// Origin is the base URL of the sidecar that has the sender's run.
	Origin string `json:"origin"`
	// Answerer is the principal that answers a question. It is set only if the message is an answer.
	Answerer *answerer `json:"answerer"`
}

// answerer is a principal of the sender's sidecar, with the scopes that it had when it answered.
type answerer struct {
	Principal string   `json:"principal"`
	Scopes    []string `json:"scopes"`
}

// named reports whether the name has a form that a sidecar can have sent.
func (a *answerer) named() bool {
	parts := runtime.Answerer(a.Principal, nil).Identity().Parts()
	return len(a.Principal) <= maxAnswerer && !slices.Contains(parts, "") && !strings.ContainsFunc(a.Principal, unicode.IsControl)
}

// maxAnswerer limits the name of an answerer, in bytes. Each sidecar that forwards an answer adds its
// own name to it.
const maxAnswerer = 512

// delegationOf returns the delegation in a message. It returns nil if the message contains none.
func delegationOf(msg *a2apb.Message) (*delegation, error) {
	value := msg.GetMetadata().GetFields()[protocol.DelegationURI]
	if value == nil {
		return nil, nil
	}
	var d delegation
	if strictjson.Decode(protocol.ValueFromProto(value), &d, strictjson.Open) != nil || d.Run == "" || d.Step == 0 || d.Attempt < 1 || d.Depth < 0 || d.WallTimeMillis < 0 {
		return nil, failAt(invalidParams, "message.metadata", "%s: want an object with run, step, attempt and depth", protocol.DelegationURI)
	}
	if _, err := d.Lease.Amount(); err != nil {
		return nil, failAt(invalidParams, "message.metadata", "%s: %v", protocol.DelegationURI, err)
	}
	if _, err := d.Policy.Tools(); err != nil {
		return nil, failAt(invalidParams, "message.metadata", "%s: %v", protocol.DelegationURI, err)
	}
	if a := d.Answerer; a != nil && !a.named() {
		return nil, failAt(invalidParams, "message.metadata", "%s: answerer.principal: want 1 to %d bytes without control characters, and no empty name in a chain", protocol.DelegationURI, maxAnswerer)
	}
	return &d, nil
}

// answers returns the message's caller, with the principal that answers a question. Within a sidecar this principal
// comes from the journal. A message from outside may name a principal: the caller then answers on its behalf. For
// this the caller needs the scope tasks:answer-for, and only the caller's rights are used. If no principal is named,
// the caller itself answers.
func (s *Service) answers(m *inbound) (runtime.Call, error) {
	call := m.caller
	if !m.requestsExtension(protocol.DelegationURI) {
		return call, nil
	}
	d, err := delegationOf(m.req.GetMessage())
	if err != nil || d == nil || d.Answerer == nil {
		return call, err
	}
	speaker := runtime.Answerer(d.Answerer.Principal, d.Answerer.Scopes)
	if !s.cfg.InProcess {
		if speaker, err = call.Principal.OnBehalfOf(speaker); err != nil {
			return call, runtime.PolicyError(err)
		}
	}
	call.Principal = speaker
	return call, nil
}

// origin returns the address of the sidecar that has the sender's run; "" means that the run is in this store. A
// message from outside can never claim this, because a run of this store pays for the runs that it starts.
func (s *Service) origin(d *delegation) string {
	if !s.cfg.InProcess && d.Origin == "" {
		return machine.OriginUnknown
	}
	return d.Origin
}

// delegate adds the delegation in a message to the request that starts its run.
func (s *Service) delegate(start *runtime.StartRequest, msg *a2apb.Message) error {
	d, err := delegationOf(msg)
	if err != nil || d == nil {
		return err
	}
	if d.Depth >= machine.MaxDepth {
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "MAX_DEPTH", Field: "message.metadata",
			Message: "delegations are nested too deep", Limit: machine.MaxDepth, Got: int64(d.Depth) + 1,
		}
	}
	if s.cfg.InProcess {
		start.Execution = machine.Workers
		if d.Execution == protocol.ExecutionSidecar {
			start.Execution = machine.Sidecar
		}
		start.Payer = d.Payer.Payer()
	}
	start.Parent = &machine.Parent{RunID: d.Run, Step: d.Step, Attempt: d.Attempt, Origin: s.origin(d)}
	if d.Traceparent != "" {
		start.Traceparent = d.Traceparent
	}
	// delegationOf has already checked the lease and the policy.
	start.Lease, _ = d.Lease.Amount()
	start.Policy, _ = d.Policy.Tools()
	start.Depth, start.MaxWallTime = d.Depth+1, time.Duration(d.WallTimeMillis)*time.Millisecond
	return nil
}
