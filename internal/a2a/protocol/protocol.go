package protocol

import "github.com/a2aproject/a2a-go/v2/a2apb/v1"

// ProtocolVersion is the version that is spoken.
const ProtocolVersion = "1.0"

// The extensions that every agent has.
const (
	// DelegationURI: a message that a run of another sidecar sends. Its metadata
	// has the object {run, step, attempt, depth, wall_time_ms, lease, policy, traceparent,
	// origin} under this URI. An agent that declares it keeps to the lease and the policy.
	DelegationURI = "https://pawl.dev/a2a/delegation/v1"
	// IdempotentURI: the same message sent again is the same task.
	IdempotentURI = "https://pawl.dev/a2a/idempotent-send/v1"
	// ApprovalURI: a task that waits for a person asks with a data part that has, under this
	// URI, the call that is held, and is answered with one that has the decision there.
	ApprovalURI = "https://pawl.dev/a2a/approval/v1"
)

// DecisionInvalid is the reason with which what should be a decision is refused. No
// delegation fails by it: the question stands.
const DecisionInvalid = "DECISION_INVALID"

// Keys of metadata that both sides know.
const (
	// ReasonKey is why a task ended, on tasks and on the last status update.
	ReasonKey = "pawl.reason"
	// StatusKey is the status of the run of a task that ended, for example
	// "BUDGET_EXHAUSTED", which A2A tells from FAILED by the reason only.
	StatusKey = "pawl.status"
	// ExactURI marks JSON that is carried as text, since data of A2A has doubles and a number in it
	// is another one as a double. On a part (metadata, true) the text of the part is JSON; an
	// object with this member alone is the JSON that the member's text says.
	ExactURI = "https://pawl.dev/a2a/exact-json/v1"
)

// outputArtifact is the artifact of the last completed turn's output. Where the
// workflow has an artifact of that name, the turn's is turn.output.
const (
	OutputArtifact = "output"
	TurnArtifact   = "turn.output"
)

// ExecutionSidecar is the `execution` of a delegation by a run that its sidecar executes: so
// are its agents there. Others take no notice.
const ExecutionSidecar = "SIDECAR"

// AnswererOf returns the name of the principal for which a message answers; "" = none.
func AnswererOf(msg *a2apb.Message) string {
	said := msg.GetMetadata().GetFields()[DelegationURI].GetStructValue().GetFields()["answerer"]
	return said.GetStructValue().GetFields()["principal"].GetStringValue()
}
