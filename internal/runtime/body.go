package runtime

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
type body struct{ buf *[]byte }

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// maxPooledBody keeps the buffers of huge bodies out of the pool.
const maxPooledBody = 64 << 10

func newBody(kind machine.CommandKind) body {
	b := body{buf: bodies.Get().(*[]byte)}
	*b.buf = append((*b.buf)[:0], byte(kind))
	return b
}

func (b body) sum() [32]byte { return sha256.Sum256(*b.buf) }

func (b body) free() {
	if cap(*b.buf) <= maxPooledBody {
		bodies.Put(b.buf)
	}
}

func (b body) number(n uint64) { *b.buf = binary.BigEndian.AppendUint64(*b.buf, n) }

func (b body) text(s string) {
	b.number(uint64(len(s)))
	*b.buf = append(*b.buf, s...)
}

func (b body) bytes(v []byte) {
	b.number(uint64(len(v)))
	*b.buf = append(*b.buf, v...)
}

func (b body) flag(on bool) {
	var n uint64
	if on {
		n = 1
	}
	b.number(n)
}

func (b body) json(v []byte) { b.bytes(canonical(v)) }

func (b body) fault(f machine.Fault) {
	b.text(f.Code)
	b.text(f.Message)
}

func (b body) usage(u machine.Usage) {
	b.number(uint64(u.InputTokens))
	b.number(uint64(u.OutputTokens))
	b.number(uint64(u.CostMicro))
	b.number(uint64(u.ToolCalls))
}

// writes takes artifacts in the order of their names; JSON in canonical form.
func (b body) writes(g *machine.Graph, writes []machine.ArtifactWrite) {
	b.number(uint64(len(writes)))
	if len(writes) > 1 {
		writes = slices.Clone(writes)
		slices.SortStableFunc(writes, func(a, c machine.ArtifactWrite) int { return strings.Compare(a.Name, c.Name) })
	}
	for i := range writes {
		b.text(writes[i].Name)
		if isJSON(g.Artifacts[writes[i].Name].Type) {
			b.json(writes[i].Value)
		} else {
			b.bytes(writes[i].Value)
		}
	}
}

func (b body) parts(parts []machine.Part) {
	b.number(uint64(len(parts)))
	for i := range parts {
		p := &parts[i]
		b.number(uint64(p.Kind))
		b.text(p.Text)
		if p.Kind == machine.PartJSON {
			b.json(p.Data)
		} else {
			b.bytes(p.Data)
		}
		b.text(p.MediaType)
		b.text(p.Filename)
		b.json(p.Metadata)
	}
}

func (b body) messages(messages []machine.Message) {
	b.number(uint64(len(messages)))
	for i := range messages {
		b.text(messages[i].Role)
		b.parts(messages[i].Parts)
		b.json(messages[i].ToolCalls)
		b.text(messages[i].ToolCallID)
	}
}

// envelope is part of what was said; nil is nothing.
func (b body) envelope(e *machine.Envelope) {
	if e == nil {
		b.number(0)
		return
	}
	b.number(1)
	b.text(e.MessageID)
	b.text(e.ContextID)
	b.texts(e.References)
	b.texts(e.Extensions)
	b.json(e.Metadata)
}

func (b body) texts(list []string) {
	b.number(uint64(len(list)))
	for _, s := range list {
		b.text(s)
	}
}

func (b body) piece(p *machine.OutputPiece) {
	b.text(p.ID)
	b.text(p.Name)
	b.text(p.Description)
	b.parts(p.Parts)
	b.flag(p.Append)
	b.flag(p.Last)
	b.json(p.Metadata)
}

// plain takes the commands that have few fields.
func (b body) plain(c machine.Command) {
	switch c := c.(type) {
	case machine.SendInput:
		b.parts(c.Parts)
		b.number(uint64(c.Step))
		b.envelope(c.Envelope)
	case machine.Pause:
		b.text(c.Note)
	case machine.Resume:
		b.text(c.Note)
	case machine.Cancel:
		b.text(c.Note)
	}
}

// canonical gives JSON values that differ only in the order of keys or in
// spaces the same bytes. Numbers keep their spelling: rounding them, as RFC 8785
// does, would make different large integers equal. What is no JSON stays.
func canonical(v []byte) []byte {
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

func payloadHash(payload []byte) [32]byte { return sha256.Sum256(canonical(payload)) }

// compactWrites takes the spaces out of JSON values; values that do not parse
// stay, for the machine to refuse. The caller's slice is not changed.
func compactWrites(g *machine.Graph, writes []machine.ArtifactWrite) []machine.ArtifactWrite {
	owned := false
	for i := range writes {
		if !isJSON(g.Artifacts[writes[i].Name].Type) {
			continue
		}
		short, changed := compact(writes[i].Value)
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
func compact(v []byte) ([]byte, bool) {
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
func isJSON(mediaType string) bool {
	if mediaType == "application/json" {
		return true
	}
	base, _, _ := strings.Cut(mediaType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return base == "application/json" || strings.HasSuffix(base, "+json")
}
