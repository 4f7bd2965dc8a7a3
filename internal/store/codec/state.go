package codec

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// appendState writes a state whose chain ends at prev instead of st.PrevHash.
func appendState(b []byte, st *machine.State, prev *[32]byte) []byte {
	b = appendIdentity(b, st)
	b = appendUint(b, 14, st.Seq)
	b = appendHash(b, 15, prev)
	b = appendTime(b, 16, st.CreatedAt)
	b = appendTime(b, 17, st.At)
	b = appendUint(b, 18, uint64(st.Status))
	b = appendString(b, 19, st.Reason)
	b = appendBool(b, 20, st.Paused)
	b = appendString(b, 21, st.Current)
	b = appendUint(b, 22, st.VisitSeq)
	b = appendCounts(b, st)
	b = appendTime(b, 31, st.Deadline)
	b = appendInt(b, 32, st.WallLeft)
	b = appendTime(b, 33, st.StateTimeoutAt)
	b = appendInt(b, 34, int64(st.MaxSteps))
	b = appendTurn(b, 35, st.Turn)
	b = appendPacked(b, 36, st.Queue)
	b = appendSteps(b, 37, st.Steps)
	b = appendUint(b, 38, uint64(st.LastStep))
	b = appendArtifactHeads(b, 39, st.Artifacts)
	b = appendInt(b, 40, st.ArtifactBytes)
	b = appendConversations(b, 41, st.Conversations)
	b = appendInt(b, 42, st.MessageBytes)
	b = appendForked(b, 80, st.Forked)
	b = appendBool(b, 81, st.Imported)
	b = appendTask(b, 90, st.Task)
	b = appendUint(b, 91, uint64(st.Awaiting))
	return appendTime(b, 92, st.StatusAt)
}

// appendIdentity writes what never changes after the start.
func appendIdentity(b []byte, st *machine.State) []byte {
	b = appendUint(b, 1, uint64(st.Namespace))
	b = appendString(b, 2, st.RunID)
	b = appendString(b, 3, st.Digest)
	b = appendString(b, 4, st.PackID)
	b = appendString(b, 5, st.PackVersion)
	b = appendString(b, 6, st.Entry)
	b = appendString(b, 7, st.Agent)
	b = appendBool(b, 8, st.EntryOverride)
	b = appendUint(b, 9, uint64(st.Execution))
	b = appendLabels(b, 10, st.Labels)
	b = appendLimits(b, 11, &st.Limits)
	b = appendParent(b, 12, st.Parent)
	return appendInt(b, 13, int64(st.Depth))
}

func appendCounts(b []byte, st *machine.State) []byte {
	var mark int
	for i := range st.Visits {
		b, mark = open(b, 23)
		b = appendString(b, 1, st.Visits[i].State)
		b = appendInt(b, 2, int64(st.Visits[i].N))
		b = shut(b, mark)
	}
	for i := range st.Edges {
		b, mark = open(b, 24)
		b = appendString(b, 1, st.Edges[i].State)
		b = appendString(b, 2, st.Edges[i].Event)
		b = appendInt(b, 3, int64(st.Edges[i].N))
		b = shut(b, mark)
	}
	b = appendInt(b, 25, int64(st.TotalVisits))
	b = appendInt(b, 26, int64(st.Transitions))
	b = appendInt(b, 27, int64(st.ToolCalls))
	b = appendInt(b, 28, int64(st.Reframes))
	b = appendInt(b, 29, st.Tokens)
	return appendInt(b, 30, st.CostMicro)
}

func appendLabels(b []byte, num protowire.Number, ls []machine.Label) []byte {
	for i := range ls {
		var mark int
		b, mark = open(b, num)
		b = appendString(b, 1, ls[i].Key)
		b = appendString(b, 2, ls[i].Value)
		b = shut(b, mark)
	}
	return b
}

func appendLimits(b []byte, num protowire.Number, l *machine.Limits) []byte {
	if *l == (machine.Limits{}) {
		return b
	}
	b, mark := open(b, num)
	b = appendInt(b, 1, int64(l.MaxTransitions))
	b = appendInt(b, 2, l.MaxArtifactBytes)
	b = appendInt(b, 3, l.MaxRunArtifactBytes)
	b = appendInt(b, 4, l.MaxMessageBytes)
	b = appendInt(b, 5, int64(l.MaxQueuedInputs))
	return shut(b, mark)
}

func appendParent(b []byte, num protowire.Number, p *machine.Parent) []byte {
	if p == nil {
		return b
	}
	b, mark := open(b, num)
	b = appendString(b, 1, p.RunID)
	b = appendUint(b, 2, uint64(p.Step))
	b = appendInt(b, 3, int64(p.Attempt))
	b = appendString(b, 4, p.Origin)
	return shut(b, mark)
}

func appendTurn(b []byte, num protowire.Number, t *machine.Turn) []byte {
	if t == nil {
		return b
	}
	b, mark := open(b, num)
	b = appendTurnRef(b, t.Seq, t.Attempt)
	b = appendTime(b, 3, t.NotBefore)
	b = appendBool(b, 4, t.Suspended)
	b = appendInt(b, 5, int64(t.Requests))
	b = appendInt(b, 6, int64(t.Calls))
	b = appendHash(b, 7, &t.LastFailure)
	if t.Assigned != (machine.Assignment{}) {
		b = appendAssignment(b, 8, &t.Assigned)
	}
	b = appendUint(b, 20, t.Keys)
	return shut(b, mark)
}

func appendSteps(b []byte, num protowire.Number, steps []machine.ToolStep) []byte {
	for i := range steps {
		t := &steps[i]
		var mark int
		b, mark = open(b, num)
		b = appendUint(b, 1, uint64(t.Step))
		b = appendString(b, 2, t.Key)
		b = appendString(b, 3, t.Tool)
		b = appendHash(b, 4, &t.PayloadHash)
		b = appendUint(b, 5, uint64(t.Status))
		b = appendInt(b, 6, int64(t.Attempt))
		b = appendUint(b, 7, t.TurnSeq)
		b = appendUint(b, 8, t.RequestSeq)
		b = appendUint(b, 9, t.AnswerSeq)
		b = appendHash(b, 10, &t.AnswerHash)
		b = appendTime(b, 11, t.Deadline)
		b = appendBool(b, 12, t.Delegation)
		b = appendRemote(b, 30, t.Remote)
		b = shut(b, mark)
	}
	return b
}

func appendArtifactHeads(b []byte, num protowire.Number, heads []machine.ArtifactHead) []byte {
	for i := range heads {
		a := &heads[i]
		var mark int
		b, mark = open(b, num)
		b = appendString(b, 1, a.Name)
		b = appendString(b, 2, a.Type)
		b = appendUint(b, 3, uint64(a.Mode))
		b = appendUint(b, 4, a.Seq)
		b = appendInt(b, 5, int64(a.Writes))
		b = appendInt(b, 6, a.Bytes)
		b = appendHash(b, 7, &a.Hash)
		b = shut(b, mark)
	}
	return b
}

func appendConversations(b []byte, num protowire.Number, cs []machine.Conversation) []byte {
	for i := range cs {
		var mark int
		b, mark = open(b, num)
		b = appendString(b, 1, cs[i].State)
		b = appendUint(b, 2, cs[i].From)
		b = appendUint(b, 3, cs[i].Next)
		b = shut(b, mark)
	}
	return b
}
