package protocol

import "github.com/a2aproject/a2a-go/v2/a2apb/v1"

// ProtocolVersion is the supported version of A2A.
const ProtocolVersion = "1.0"

// The extensions that every agent declares.
const (
	// DelegationURI is the extension for a message from a run of another sidecar. The metadata of such a message
	// contain the object {run, step, attempt, idempotency_key, depth, wall_time_ms, execution, lease, policy, payer,
	// traceparent, origin, answerer} under this URI. Some members are only in some messages. An agent that declares
	// the extension enforces the lease (the lent budget) and the policy (the lists of tools).
	DelegationURI = "https://pawl.dev/a2a/delegation/v1"
	// IdempotentURI is the extension which means that a message that is sent again belongs to the same
	// task.
	IdempotentURI = "https://pawl.dev/a2a/idempotent-send/v1"
	// ApprovalURI is the extension for decisions about held calls (tool calls that wait for approval). A task that
	// waits for a person asks with a data part that contains the held call under this URI. The answer contains the
	// decision under the same URI.
	ApprovalURI = "https://pawl.dev/a2a/approval/v1"
)

// DecisionInvalid is the reason of the error for an invalid decision. The delegation does not fail, and
// the question stays open.
const DecisionInvalid = "DECISION_INVALID"

// Keys of metadata that both sides use.
const (
	// ReasonKey is the metadata key for the reason why a task ended. It is set in tasks and in the last
	// status update.
	ReasonKey = "pawl.reason"
	// StatusKey is the metadata key for the status of the run of an ended task, for example
	// "BUDGET_EXHAUSTED". In A2A such a task has the state FAILED.
	StatusKey = "pawl.status"
	// ExactURI marks JSON that is sent as text, because numbers in A2A data are doubles and a double
	// cannot represent one of the numbers. In the metadata of a part, the value true means that the
	// text of the part is JSON. An object with only this member represents the JSON in the text of the
	// member.
	ExactURI = "https://pawl.dev/a2a/exact-json/v1"
)

// OutputArtifact is the name of the artifact with the output of the last completed turn. If the
// workflow has an artifact with this name, the name is TurnArtifact.
const (
	OutputArtifact = "output"
	TurnArtifact   = "turn.output"
)

// ExecutionSidecar is the value of `execution` in a delegation by a run that its sidecar executes. The
// agents of the run in the same sidecar are also executed by the sidecar. Other agents ignore it.
const ExecutionSidecar = "SIDECAR"

// AnswererOf returns the name of the principal on whose behalf a message answers. It returns "" if
// there is none.
func AnswererOf(msg *a2apb.Message) string {
	said := msg.GetMetadata().GetFields()[DelegationURI].GetStructValue().GetFields()["answerer"]
	return said.GetStructValue().GetFields()["principal"].GetStringValue()
}
