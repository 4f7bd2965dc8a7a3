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

// Body collects the values that must be equal when a request is repeated, and hashes them. The length
// of each value is written before the value.
type Body struct{ buf *[]byte }

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// maxPooledBody keeps large buffers out of the pool.
const maxPooledBody = 64 << 10

// NewBody begins the body of a command of the given kind. The caller must call [Body.Free] once.
func NewBody(kind machine.CommandKind) Body {
	b := Body{buf: bodies.Get().(*[]byte)}
	*b.buf = append((*b.buf)[:0], byte(kind))
	return b
}

// Sum returns the SHA-256 of the collected values.
func (b Body) Sum() [32]byte { return sha256.Sum256(*b.buf) }

// Free returns the buffer to the pool. The Body must not be used after it.
func (b Body) Free() {
	if cap(*b.buf) <= maxPooledBody {
		bodies.Put(b.buf)
	}
}

// Number adds a number as eight bytes, big-endian.
func (b Body) Number(n uint64) { *b.buf = binary.BigEndian.AppendUint64(*b.buf, n) }

// Text adds a string after its length.
func (b Body) Text(s string) {
	b.Number(uint64(len(s)))
	*b.buf = append(*b.buf, s...)
}

// Bytes adds bytes after their length.
func (b Body) Bytes(v []byte) {
	b.Number(uint64(len(v)))
	*b.buf = append(*b.buf, v...)
}

// Flag adds a boolean.
func (b Body) Flag(on bool) {
	var n uint64
	if on {
		n = 1
	}
	b.Number(n)
}

// JSON adds a JSON value in canonical form, so that spaces and the order of keys do not change the
// hash.
func (b Body) JSON(v []byte) { b.Bytes(Canonical(v)) }

// Fault adds the code and the message of a fault. It ignores the trace.
func (b Body) Fault(f machine.Fault) {
	b.Text(f.Code)
	b.Text(f.Message)
}

// Usage adds every number that the caller gives.
func (b Body) Usage(u machine.Usage) {
	b.Number(uint64(u.InputTokens))
	b.Number(uint64(u.OutputTokens))
	b.Number(uint64(u.CostMicro))
	b.Number(uint64(u.ToolCalls))
	b.Number(uint64(u.CachedTokens))
	b.Number(uint64(u.ReasoningTokens))
	b.Text(u.Model)
	if u.Estimated {
		b.Text("estimated") // only if set: digests of older bodies do not change
	}
	if u.CountedBefore {
		b.Text("counted")
	}
}

// Writes adds artifacts in the order of their names. JSON values are added in canonical form.
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

// Parts adds parts in their order.
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

// Messages adds messages in their order.
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

// Envelope adds the envelope of a message. nil means that there is none.
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

// Piece adds a piece of output.
func (b Body) Piece(p *machine.OutputPiece) {
	b.Text(p.ID)
	b.Text(p.Name)
	b.Text(p.Description)
	b.Parts(p.Parts)
	b.Flag(p.Append)
	b.Flag(p.Last)
	b.JSON(p.Metadata)
}

// Plain adds the commands with few fields.
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

// decision adds the fields of a decision that the caller sets, but not the fields that the engine
// stamps.
func (b Body) decision(c *machine.DecideStep) {
	b.Number(uint64(c.Step))
	b.Bytes(c.Digest[:])
	b.Number(uint64(c.Verdict))
	b.JSON(c.Payload)
	b.Text(c.Reason)
	b.Number(uint64(c.Expires))
}

// Canonical returns the same bytes for JSON values that differ only in spaces or in the order of keys.
// Numbers keep their spelling. If they were rounded as in RFC 8785, different large integers would
// become equal. A value that the strict parser refuses is returned unchanged.
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

// PayloadHash returns the SHA-256 of the canonical payload of a tool call.
func PayloadHash(payload []byte) [32]byte { return sha256.Sum256(Canonical(payload)) }

// CompactWrites removes the spaces from JSON values. It keeps values that do not parse, because the
// machine refuses them. The caller's slice is not changed.
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

// CheckWrites returns an error for JSON that two parsers could read differently. It does not check
// whether a value is JSON, because only the machine knows the type of the artifact.
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

// Compact removes the spaces from a JSON value. It returns false if the value has no spaces.
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

// IsJSON reports whether a media type is JSON. The machine uses the same rule.
func IsJSON(mediaType string) bool {
	if mediaType == "application/json" {
		return true
	}
	base, _, _ := strings.Cut(mediaType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return base == "application/json" || strings.HasSuffix(base, "+json")
}
