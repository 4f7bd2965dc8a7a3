package a2a

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
)

// taskBuilder builds a task from its events. The result is the task as a client sees it after it received all
// of them.
type taskBuilder struct {
	task *a2apb.Task
	// messageInHistory reports whether the history already contains the message of the task's current status.
	messageInHistory bool
}

func newFold(p *projector) *taskBuilder {
	return &taskBuilder{task: &a2apb.Task{Id: p.taskID, ContextId: p.contextID, Status: &a2apb.TaskStatus{}}}
}

// apply applies events to the task, in order.
func (f *taskBuilder) apply(events []event) {
	for i := range events {
		e := &events[i]
		switch {
		case e.message != nil:
			f.moveMessageToHistory()
			f.task.History = append(f.task.History, e.message)
		case e.update.GetStatusUpdate() != nil:
			f.moveMessageToHistory()
			f.status(e.update.GetStatusUpdate())
		case e.update.GetArtifactUpdate() != nil:
			f.artifact(e.update.GetArtifactUpdate())
		}
		f.note(generationKey, structpb.NewNumberValue(float64(e.seq)))
	}
}

func (f *taskBuilder) note(key string, value *structpb.Value) {
	if f.task.Metadata == nil {
		f.task.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	}
	f.task.Metadata.Fields[key] = value
}

// moveMessageToHistory adds the message of the status to the history.
func (f *taskBuilder) moveMessageToHistory() {
	if m := f.task.GetStatus().GetMessage(); m != nil && !f.messageInHistory {
		f.task.History = append(f.task.History, m)
	}
	f.messageInHistory = true
}

func (f *taskBuilder) status(u *a2apb.TaskStatusUpdateEvent) {
	f.task.Status, f.messageInHistory = u.GetStatus(), false
	if reason := u.GetMetadata().GetFields()[protocol.ReasonKey]; reason != nil {
		f.note(protocol.ReasonKey, reason)
		f.note(protocol.StatusKey, u.GetMetadata().GetFields()[protocol.StatusKey])
		for _, key := range []string{protocol.DelegationURI, lostKey} {
			if value := u.GetMetadata().GetFields()[key]; value != nil {
				f.note(key, value)
			}
		}
	}
}

// artifact replaces an artifact or appends to it. It appends to a copy, because streams share the
// updates.
func (f *taskBuilder) artifact(u *a2apb.TaskArtifactUpdateEvent) {
	news := u.GetArtifact()
	i := slices.IndexFunc(f.task.GetArtifacts(), func(a *a2apb.Artifact) bool { return a.GetArtifactId() == news.GetArtifactId() })
	switch {
	case i < 0:
		f.task.Artifacts = append(f.task.Artifacts, proto.CloneOf(news))
	case u.GetAppend():
		f.task.Artifacts[i].Parts = append(f.task.Artifacts[i].Parts, news.GetParts()...)
	default:
		f.task.Artifacts[i] = proto.CloneOf(news)
	}
}

// view returns the task for an answer. It contains at most the given number of messages of the history:
// the newest ones, in their order. nil means all messages. artifacts says whether it contains artifacts.
func (f *taskBuilder) view(history *int32, artifacts bool) *a2apb.Task {
	out := &a2apb.Task{
		Id: f.task.GetId(), ContextId: f.task.GetContextId(), Status: f.task.GetStatus(),
		History: f.task.GetHistory(), Metadata: f.task.GetMetadata(),
	}
	if artifacts {
		out.Artifacts = f.task.GetArtifacts()
	}
	if history != nil {
		out.History = out.History[max(0, len(out.History)-int(*history)):]
	}
	return out
}
