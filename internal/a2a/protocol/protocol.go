package protocol

import "github.com/a2aproject/a2a-go/v2/a2apb/v1"

// ProtocolVersion is the supported version of A2A.
const ProtocolVersion = "1.0"

// The extensions that every agent declares.
const (
	// DelegationURI is for a message from a run of another sidecar. Its metadata has the object {run,
	// step, attempt, depth, wall_time_ms, lease, policy, traceparent, origin} under this URI. An agent
	// that declares the extension keeps the lease and the policy.
	DelegationURI = "https://pawl.dev/a2a/delegation/v1"
	// IdempotentURI means that the same message, sent again, belongs to the same task.
	IdempotentURI = "https://pawl.dev/a2a/idempotent-send/v1"
	// ApprovalURI is for decisions about held calls. A task that waits for a person asks with a data part
	// that has the held call under this URI. The answer has the decision there.
	ApprovalURI = "https://pawl.dev/a2a/approval/v1"
)

// DecisionInvalid is the reason of the error for an invalid decision. It does not fail the delegation: the question stays
// open.
const DecisionInvalid = "DECISION_INVALID"

// Keys of metadata that both sides use.
const (
	// ReasonKey is the reason why a task ended, on tasks and on the last status update.
	ReasonKey = "pawl.reason"
	// StatusKey is the status of the run of a task that has ended, for example "BUDGET_EXHAUSTED". In A2A
	// such a task has the state FAILED.
	StatusKey = "pawl.status"
	// ExactURI marks JSON that is sent as text, because data in A2A has doubles and a double cannot hold
	// one of its numbers. On a part (metadata, true) it means that the text of the part is JSON. An
	// object with only this member stands for the JSON in the member's text.
	ExactURI = "https://pawl.dev/a2a/exact-json/v1"
)

// OutputArtifact is the name of the artifact with the output of the last completed turn. If the workflow has an artifact
// of that name, the name is TurnArtifact.
const (
	OutputArtifact = "output"
	TurnArtifact   = "turn.output"
)

// ExecutionSidecar is the `execution` of a delegation by a run that its sidecar executes. Its agents there are executed
// by the sidecar too. Other agents ignore it.
const ExecutionSidecar = "SIDECAR"

// AnswererOf returns the name of the principal for which a message answers, or "".
func AnswererOf(msg *a2apb.Message) string {
	said := msg.GetMetadata().GetFields()[DelegationURI].GetStructValue().GetFields()["answerer"]
	return said.GetStructValue().GetFields()["principal"].GetStringValue()
}
