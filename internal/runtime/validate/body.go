package validate

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// Body collects what must be equal for a repeat to be a repeat, each value
// framed by its length, and hashes it.
type Body struct{ buf *[]byte }

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// maxPooledBody keeps the buffers of huge bodies out of the pool.
const maxPooledBody = 64 << 10

// NewBody begins the body of a command of that kind. Its owner calls [Body.Free] once.
func NewBody(kind machine.CommandKind) Body {
	b := Body{buf: bodies.Get().(*[]byte)}
	*b.buf = append((*b.buf)[:0], byte(kind))
	return b
}

// Sum is the SHA-256 of what was collected.
func (b Body) Sum() [32]byte { return sha256.Sum256(*b.buf) }

// Free gives the buffer back; the Body must not be used after it.
func (b Body) Free() {
	if cap(*b.buf) <= maxPooledBody {
		bodies.Put(b.buf)
	}
}

// Number takes a number, eight bytes, most significant first.
func (b Body) Number(n uint64) { *b.buf = binary.BigEndian.AppendUint64(*b.buf, n) }

// Text takes a string behind its length.
func (b Body) Text(s string) {
	b.Number(uint64(len(s)))
	*b.buf = append(*b.buf, s...)
}

// Bytes takes bytes behind their length.
func (b Body) Bytes(v []byte) {
	b.Number(uint64(len(v)))
	*b.buf = append(*b.buf, v...)
}

// Flag takes a yes or no.
func (b Body) Flag(on bool) {
	var n uint64
	if on {
		n = 1
	}
	b.Number(n)
}

// JSON takes a value in its canonical form, so that spaces and the order of keys do not count.
func (b Body) JSON(v []byte) { b.Bytes(Canonical(v)) }

// Fault takes code and message; the trace is of no account.
func (b Body) Fault(f machine.Fault) {
	b.Text(f.Code)
	b.Text(f.Message)
}

// Usage takes every figure that the caller gives.
func (b Body) Usage(u machine.Usage) {
	b.Number(uint64(u.InputTokens))
	b.Number(uint64(u.OutputTokens))
	b.Number(uint64(u.CostMicro))
	b.Number(uint64(u.ToolCalls))
	b.Number(uint64(u.CachedTokens))
	b.Number(uint64(u.ReasoningTokens))
	b.Text(u.Model)
	if u.Estimated {
		b.Text("estimated") // only where it is set: digests of older bodies stay what they are
	}
	if u.CountedBefore {
		b.Text("counted")
	}
}

// Writes takes artifacts in the order of their names; JSON in canonical form.
func (b Body) Writes(g *machine.Graph, writes []machine.ArtifactWrite) {
	b.Number(uint64(len(writes)))
	if len(writes) > 1 {
		writes = slices.Clone(writes)
		slices.SortStableFunc(writes, func(a, c machine.ArtifactWrite) int { return strings.Compare(a.Name, c.Name) })
	}
	for i := range writes {
		b.Text(writes[i].Name)
		if IsJSON(g.Artifacts[writes[i].Name].Type) {
			b.JSON(writes[i].Value)
		} else {
			b.Bytes(writes[i].Value)
		}
	}
}

// Parts takes parts in their order.
func (b Body) Parts(parts []machine.Part) {
	b.Number(uint64(len(parts)))
	for i := range parts {
		p := &parts[i]
		b.Number(uint64(p.Kind))
		b.Text(p.Text)
		if p.Kind == machine.PartJSON {
			b.JSON(p.Data)
		} else {
			b.Bytes(p.Data)
		}
		b.Text(p.MediaType)
		b.Text(p.Filename)
		b.JSON(p.Metadata)
	}
}

// Messages takes messages in their order.
func (b Body) Messages(messages []machine.Message) {
	b.Number(uint64(len(messages)))
	for i := range messages {
		b.Text(messages[i].Role)
		b.Parts(messages[i].Parts)
		b.JSON(messages[i].ToolCalls)
		b.Text(messages[i].ToolCallID)
		if len(messages[i].Provider)+len(messages[i].Refusal) > 0 {
			b.Bytes(messages[i].Provider)
			b.Text(messages[i].Refusal)
		}
	}
}

// Envelope is part of what was said; nil is nothing.
func (b Body) Envelope(e *machine.Envelope) {
	if e == nil {
		b.Number(0)
		return
	}
	b.Number(1)
	b.Text(e.MessageID)
	b.Text(e.ContextID)
	b.texts(e.References)
	b.texts(e.Extensions)
	b.JSON(e.Metadata)
}

func (b Body) texts(list []string) {
	b.Number(uint64(len(list)))
	for _, s := range list {
		b.Text(s)
	}
}

// Piece takes a piece of output.
func (b Body) Piece(p *machine.OutputPiece) {
	b.Text(p.ID)
	b.Text(p.Name)
	b.Text(p.Description)
	b.Parts(p.Parts)
	b.Flag(p.Append)
	b.Flag(p.Last)
	b.JSON(p.Metadata)
}

// Plain takes the commands that have few fields.
func (b Body) Plain(c machine.Command) {
	switch c := c.(type) {
	case machine.SendInput:
		b.Parts(c.Parts)
		b.Number(uint64(c.Step))
		b.Envelope(c.Envelope)
	case machine.RaiseBudget:
		b.Number(uint64(c.To.Tokens))
		b.Number(uint64(c.To.CostMicro))
		b.Text(c.Reason)
	case machine.DecideStep:
		b.decision(&c)
	case machine.Pause:
		b.Text(c.Note)
	case machine.Resume:
		b.Text(c.Note)
	case machine.Cancel:
		b.Text(c.Note)
	case machine.Steer:
		b.Text(c.Text)
		b.Number(uint64(c.When))
	case machine.Stop:
		b.Text(c.Note)
	}
}

// decision takes what is decided about a call, not what the host says of it.
func (b Body) decision(c *machine.DecideStep) {
	b.Number(uint64(c.Step))
	b.Bytes(c.Digest[:])
	b.Number(uint64(c.Verdict))
	b.JSON(c.Payload)
	b.Text(c.Reason)
	b.Number(uint64(c.Expires))
}

// Canonical gives JSON values that differ only in the order of keys or in
// spaces the same bytes. Numbers keep their spelling: rounding them, as RFC 8785
// does, would make different large integers equal. What the strict reader refuses stays.
func Canonical(v []byte) []byte {
	if len(v) == 0 || v[0] != '{' && v[0] != '[' {
		return v
	}
	value, err := strictjson.Value(v)
	if err != nil {
		return v
	}
	out, err := json.Marshal(value)
	if err != nil {
		return v
	}
	return out
}

// PayloadHash is the SHA-256 of the canonical payload of a tool call.
func PayloadHash(payload []byte) [32]byte { return sha256.Sum256(Canonical(payload)) }

// CompactWrites takes the spaces out of JSON values; values that do not parse
// stay, for the machine to refuse. The caller's slice is not changed.
func CompactWrites(g *machine.Graph, writes []machine.ArtifactWrite) []machine.ArtifactWrite {
	owned := false
	for i := range writes {
		if !IsJSON(g.Artifacts[writes[i].Name].Type) {
			continue
		}
		short, changed := Compact(writes[i].Value)
		if !changed {
			continue
		}
		if !owned {
			writes, owned = slices.Clone(writes), true
		}
		writes[i].Value = short
	}
	return writes
}

// CheckWrites refuses JSON that two readers would see differently. What is no JSON at all is left
// to the machine, which knows more of its artifact.
func CheckWrites(g *machine.Graph, c machine.Command) error {
	var writes []machine.ArtifactWrite
	switch cmd := c.(type) {
	case machine.EmitEvent:
		writes = cmd.Artifacts
	case machine.SetArtifacts:
		writes = cmd.Artifacts
	case machine.CompleteTurn:
		writes = cmd.Artifacts
	}
	return CheckValues(g, writes)
}

// CheckValues is [CheckWrites] for the writes themselves.
func CheckValues(g *machine.Graph, writes []machine.ArtifactWrite) error {
	for i := range writes {
		w := &writes[i]
		if IsJSON(g.Artifacts[w.Name].Type) && json.Valid(w.Value) {
			if err := CheckJSON("artifacts["+w.Name+"]", w.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// Compact takes the spaces out of a JSON value; false: nothing to take out.
func Compact(v []byte) ([]byte, bool) {
	if !bytes.ContainsAny(v, " \t\r\n") {
		return v, false
	}
	var out bytes.Buffer
	if err := json.Compact(&out, v); err != nil || out.Len() == len(v) {
		return v, false
	}
	return out.Bytes(), true
}

// IsJSON reads a media type like the machine does.
func IsJSON(mediaType string) bool {
	if mediaType == "application/json" {
		return true
	}
	base, _, _ := strings.Cut(mediaType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return base == "application/json" || strings.HasSuffix(base, "+json")
}
