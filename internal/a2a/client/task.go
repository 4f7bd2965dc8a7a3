package client

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// agentStates maps the states of A2A tasks to the states that a delegation uses.
var agentStates = map[a2apb.TaskState]machine.AgentState{
	a2apb.TaskState_TASK_STATE_SUBMITTED:      machine.AgentWorking,
	a2apb.TaskState_TASK_STATE_WORKING:        machine.AgentWorking,
	a2apb.TaskState_TASK_STATE_INPUT_REQUIRED: machine.AgentAsks,
	a2apb.TaskState_TASK_STATE_AUTH_REQUIRED:  machine.AgentAsksAuth,
	a2apb.TaskState_TASK_STATE_COMPLETED:      machine.AgentCompleted,
	a2apb.TaskState_TASK_STATE_FAILED:         machine.AgentFailed,
	a2apb.TaskState_TASK_STATE_REJECTED:       machine.AgentRejected,
	a2apb.TaskState_TASK_STATE_CANCELED:       machine.AgentCancelled,
}

// taskOf converts an A2A task to the engine's form. An agent that is a sidecar sends the output of the run's last
// turn as a separate artifact.
func taskOf(t *a2apb.Task) (machine.AgentTask, error) {
	out := machine.AgentTask{ID: t.GetId(), ContextID: t.GetContextId(), State: agentStates[t.GetStatus().GetState()]}
	if out.ID == "" || out.State == 0 {
		return out, &machine.AgentFault{
			Kind: machine.AgentRefuses, Code: "AGENT_PROTOCOL",
			Message: "the agent answered with a task without id, or of the unknown state " + t.GetStatus().GetState().String(),
		}
	}
	out.Status = t.GetMetadata().GetFields()[protocol.StatusKey].GetStringValue()
	out.Reason = t.GetMetadata().GetFields()[protocol.ReasonKey].GetStringValue()
	var err error
	if out.State.Ended() {
		if out.Usage, out.Metered, out.Untold, err = protocol.UsageFromProto(t.GetMetadata().GetFields()[protocol.DelegationURI]); err != nil {
			return out, err
		}
	}
	if out.Message, err = foreignParts(t.GetStatus().GetMessage().GetParts()); err != nil {
		return out, err
	}
	for _, a := range t.GetArtifacts() {
		parts, err := foreignParts(a.GetParts())
		if err != nil {
			return out, err
		}
		if id := a.GetArtifactId(); id == protocol.OutputArtifact || id == protocol.TurnArtifact {
			out.Output = parts
			continue
		}
		name := a.GetName()
		if name == "" {
			name = a.GetArtifactId()
		}
		out.Artifacts = append(out.Artifacts, machine.AgentArtifact{ID: a.GetArtifactId(), Name: name, Parts: parts})
	}
	return out, nil
}

// replyOf converts a message that an agent returned instead of a task. In this case the work is done
// and there is no task.
func replyOf(m *a2apb.Message) (machine.AgentTask, error) {
	parts, err := foreignParts(m.GetParts())
	return machine.AgentTask{
		ContextID: m.GetContextId(), State: machine.AgentCompleted, Output: parts,
	}, err
}

func foreignParts(parts []*a2apb.Part) ([]machine.Part, error) {
	out, err := protocol.PartsFromProto("parts", parts)
	if err != nil {
		return nil, newRefusal("AGENT_PROTOCOL", err)
	}
	return out, nil
}

func newRefusal(code string, err error) *machine.AgentFault {
	return &machine.AgentFault{Kind: machine.AgentRefuses, Code: code, Message: err.Error()}
}

// refusals are the errors that a repetition of the same call would cause again.
var refusals = []error{
	a2a.ErrParseError, a2a.ErrInvalidRequest, a2a.ErrMethodNotFound, a2a.ErrInvalidParams, a2a.ErrUnsupportedOperation,
	a2a.ErrUnsupportedContentType, a2a.ErrInvalidAgentResponse, a2a.ErrExtensionSupportRequired, a2a.ErrVersionNotSupported,
	a2a.ErrUnauthenticated, a2a.ErrUnauthorized, errRefused,
}

// faultOf returns the meaning of an error for its delegation. If an error is not known to be permanent,
// it is treated as temporary.
func faultOf(err error) *machine.AgentFault {
	if fault, ok := errors.AsType[*machine.AgentFault](err); ok {
		return fault
	}
	if errors.Is(err, a2a.ErrTaskNotFound) {
		return &machine.AgentFault{Kind: machine.AgentNoTask, Code: "AGENT_NO_TASK", Message: err.Error()}
	}
	if errors.Is(err, errDenied) {
		return &machine.AgentFault{Kind: machine.AgentDenies, Code: "AGENT_REFUSED", Message: err.Error()}
	}
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return newRefusal("AGENT_REFUSED", err)
		}
	}
	if errors.Is(err, errTooLarge) || overLimit(err) {
		return newRefusal("AGENT_RESULT_TOO_LARGE", err)
	}
	if errors.Is(err, errRedirected) {
		return newRefusal("AGENT_REDIRECTED", err)
	}
	return &machine.AgentFault{Kind: machine.AgentUnreachable, Code: "AGENT_UNREACHABLE", Message: err.Error(), Unsent: isUnsent(err)}
}

// isUnsent reports whether there was no connection, or the agent accepted no messages. For gRPC, the
// former can be recognized only by the text of the error.
func isUnsent(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial" || errors.Is(err, errNotTaken) ||
		status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "while dialing")
}

// overLimit reports whether a message is too large for its receiver. This can be recognized only by the
// text of gRPC's error.
func overLimit(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}

func isNotCancelable(err error) bool {
	return errors.Is(err, a2a.ErrTaskNotCancelable) || errors.Is(err, a2a.ErrTaskNotFound) && !errors.Is(err, context.Canceled)
}
