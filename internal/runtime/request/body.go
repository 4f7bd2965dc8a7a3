package request

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// body collects what must be equal for a repeat to be a repeat, each value
// framed by its length, and hashes it.
type Body struct{ buf *[]byte }

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// maxPooledBody keeps the buffers of huge bodies out of the pool.
const maxPooledBody = 64 << 10

func NewBody(kind machine.CommandKind) Body {
	b := Body{buf: bodies.Get().(*[]byte)}
	*b.buf = append((*b.buf)[:0], byte(kind))
	return b
}

func (b Body) Sum() [32]byte { return sha256.Sum256(*b.buf) }

func (b Body) Free() {
	if cap(*b.buf) <= maxPooledBody {
		bodies.Put(b.buf)
	}
}

func (b Body) Number(n uint64) { *b.buf = binary.BigEndian.AppendUint64(*b.buf, n) }

func (b Body) Text(s string) {
	b.Number(uint64(len(s)))
	*b.buf = append(*b.buf, s...)
}

func (b Body) Bytes(v []byte) {
	b.Number(uint64(len(v)))
	*b.buf = append(*b.buf, v...)
}

func (b Body) Flag(on bool) {
	var n uint64
	if on {
		n = 1
	}
	b.Number(n)
}

func (b Body) JSON(v []byte) { b.Bytes(Canonical(v)) }

func (b Body) Fault(f machine.Fault) {
	b.Text(f.Code)
	b.Text(f.Message)
}

func (b Body) Usage(u machine.Usage) {
	b.Number(uint64(u.InputTokens))
	b.Number(uint64(u.OutputTokens))
	b.Number(uint64(u.CostMicro))
	b.Number(uint64(u.ToolCalls))
}

// writes takes artifacts in the order of their names; JSON in canonical form.
func (b Body) Writes(g *machine.Graph, Writes []machine.ArtifactWrite) {
	b.Number(uint64(len(Writes)))
	if len(Writes) > 1 {
		Writes = slices.Clone(Writes)
		slices.SortStableFunc(Writes, func(a, c machine.ArtifactWrite) int { return strings.Compare(a.Name, c.Name) })
	}
	for i := range Writes {
		b.Text(Writes[i].Name)
		if IsJSON(g.Artifacts[Writes[i].Name].Type) {
			b.JSON(Writes[i].Value)
		} else {
			b.Bytes(Writes[i].Value)
		}
	}
}

func (b Body) Parts(Parts []machine.Part) {
	b.Number(uint64(len(Parts)))
	for i := range Parts {
		p := &Parts[i]
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

func (b Body) Messages(Messages []machine.Message) {
	b.Number(uint64(len(Messages)))
	for i := range Messages {
		b.Text(Messages[i].Role)
		b.Parts(Messages[i].Parts)
		b.JSON(Messages[i].ToolCalls)
		b.Text(Messages[i].ToolCallID)
	}
}

// envelope is part of what was said; nil is nothing.
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

func (b Body) Piece(p *machine.OutputPiece) {
	b.Text(p.ID)
	b.Text(p.Name)
	b.Text(p.Description)
	b.Parts(p.Parts)
	b.Flag(p.Append)
	b.Flag(p.Last)
	b.JSON(p.Metadata)
}

// plain takes the commands that have few fields.
func (b Body) Plain(c machine.Command) {
	switch c := c.(type) {
	case machine.SendInput:
		b.Parts(c.Parts)
		b.Number(uint64(c.Step))
		b.Envelope(c.Envelope)
	case machine.Pause:
		b.Text(c.Note)
	case machine.Resume:
		b.Text(c.Note)
	case machine.Cancel:
		b.Text(c.Note)
	}
}

// canonical gives JSON values that differ only in the order of keys or in
// spaces the same bytes. Numbers keep their spelling: rounding them, as RFC 8785
// does, would make different large integers equal. What is no JSON stays.
func Canonical(v []byte) []byte {
	if len(v) == 0 || v[0] != '{' && v[0] != '[' {
		return v
	}
	dec := json.NewDecoder(bytes.NewReader(v))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil || dec.More() {
		return v
	}
	out, err := json.Marshal(value)
	if err != nil {
		return v
	}
	return out
}

func PayloadHash(payload []byte) [32]byte { return sha256.Sum256(Canonical(payload)) }

// compactWrites takes the spaces out of JSON values; values that do not parse
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

// compact takes the spaces out of a JSON value; false: nothing to take out.
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

// isJSON reads a media type like the machine does.
func IsJSON(mediaType string) bool {
	if mediaType == "application/json" {
		return true
	}
	base, _, _ := strings.Cut(mediaType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return base == "application/json" || strings.HasSuffix(base, "+json")
}
