package machine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// setArtifacts writes without a transition.
func (t *txn) setArtifacts(c *SetArtifacts) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	if len(c.Artifacts) == 0 {
		return &Refusal{Code: CodeInvalidArgument, Reason: "NO_ARTIFACTS", Field: "artifacts", Message: "nothing to write"}
	}
	if err := t.checkWrites(c.Artifacts); err != nil {
		return err
	}
	t.write(c.Artifacts, t.record(&ArtifactsSet{Artifacts: c.Artifacts}))
	return nil
}

// checkWrites is check (8), made write by write in the order given: declared,
// named once, small enough, of its type; last the run's total.
func (t *txn) checkWrites(writes []ArtifactWrite) error {
	if len(writes) == 0 {
		return nil
	}
	total := t.s.ArtifactBytes
	for i := range writes {
		w := &writes[i]
		decl, ok := t.g.Artifacts[w.Name]
		if !ok {
			return t.undeclared(w.Name)
		}
		if slices.ContainsFunc(writes[:i], func(o ArtifactWrite) bool { return o.Name == w.Name }) {
			return &Refusal{
				Code: CodeInvalidArgument, Reason: "DUPLICATE_ARTIFACT", Field: field(w.Name),
				Message: "written twice in one request",
			}
		}
		if err := first(t.checkSize(w), checkType(w, decl.Type)); err != nil {
			return err
		}
		total += int64(len(w.Value))
		if head := headOf(t.s, w.Name); head != nil && decl.Mode == Replace {
			total -= head.Bytes
		}
	}
	return t.checkTotal(total)
}

func (t *txn) undeclared(name string) error {
	return &Refusal{
		Code: CodeInvalidArgument, Reason: "UNDECLARED_ARTIFACT", Field: field(name),
		Message: "no state of the pack declares it", Allowed: slices.Sorted(maps.Keys(t.g.Artifacts)),
	}
}

func (t *txn) checkSize(w *ArtifactWrite) error {
	limit := t.s.Limits.MaxArtifactBytes
	if own := t.g.MaxArtifactBytes; own > 0 && own < limit {
		limit = own
	}
	got := int64(len(w.Value))
	if got <= limit {
		return nil
	}
	return &Refusal{
		Code: CodeResourceExhausted, Reason: "ARTIFACT_TOO_LARGE", Field: field(w.Name),
		Message: fmt.Sprintf("%d bytes, at most %d: store it elsewhere and write a reference to it", got, limit),
		Limit:   limit, Got: got,
	}
}

func (t *txn) checkTotal(total int64) error {
	limit := t.s.Limits.MaxRunArtifactBytes
	if total <= limit {
		return nil
	}
	return &Refusal{
		Code: CodeResourceExhausted, Reason: "ARTIFACTS_TOO_LARGE", Field: "artifacts",
		Message: fmt.Sprintf("the run's artifacts would hold %d bytes, at most %d: store them elsewhere and write references", total, limit),
		Limit:   limit, Got: total,
	}
}

// checkType holds a value against its media type: JSON must parse, text must be
// UTF-8, anything else is bytes; a claim of the caller must agree.
func checkType(w *ArtifactWrite, mediaType string) error {
	form := FormOf(mediaType)
	refuse := func(format string, args ...any) error {
		return &Refusal{
			Code: CodeInvalidArgument, Reason: "ARTIFACT_TYPE", Field: field(w.Name), Allowed: []string{mediaType},
			Message: fmt.Sprintf("declared %s, but the value ", mediaType) + fmt.Sprintf(format, args...),
		}
	}
	switch {
	case w.Type != "" && w.Type != mediaType:
		return refuse("is said to be %s", w.Type)
	case w.Form != FormUnset && w.Form != form:
		return refuse("was given as %s; want it as %s", w.Form, form)
	case form == FormJSON && !json.Valid(w.Value), form == FormText && !utf8.Valid(w.Value):
		return refuse("is not %s", map[Form]string{FormJSON: "JSON", FormText: "UTF-8 text"}[form])
	}
	return nil
}

func field(artifact string) string { return "artifacts[" + artifact + "]" }

// write notes checked writes as made by the record seq, which holds the values.
func (t *txn) write(writes []ArtifactWrite, seq uint64) {
	if len(writes) == 0 {
		return
	}
	if !t.own.artifacts {
		t.s.Artifacts, t.own.artifacts = slices.Clone(t.s.Artifacts), true
	}
	for i := range writes {
		w := &writes[i]
		decl := t.g.Artifacts[w.Name]
		head := headOf(t.s, w.Name)
		if head == nil {
			t.s.Artifacts = append(t.s.Artifacts, ArtifactHead{Name: w.Name, Type: decl.Type, Mode: decl.Mode})
			head = &t.s.Artifacts[len(t.s.Artifacts)-1]
		}
		before := head.Bytes
		updateHead(head, seq, w.Value)
		t.s.ArtifactBytes += head.Bytes - before
		t.writes = append(t.writes, ArtifactVersion{Name: w.Name, Seq: seq, Mode: decl.Mode, Bytes: int64(len(w.Value))})
	}
}

// updateHead takes one write. Hash is SHA-256 of the value for Replace; for Append
// SHA-256 of the previous hash (zero at first) and the value, so that it never
// needs what was written before.
func updateHead(h *ArtifactHead, seq uint64, value []byte) {
	h.Seq = seq
	h.Writes++
	if h.Mode == Replace {
		h.Bytes, h.Hash = int64(len(value)), sha256.Sum256(value)
		return
	}
	sum := sha256.New()
	sum.Write(h.Hash[:])
	sum.Write(value)
	sum.Sum(h.Hash[:0])
	h.Bytes += int64(len(value))
}

// headOf returns the head of a written artifact, or nil.
func headOf(s *State, name string) *ArtifactHead {
	for i := range s.Artifacts {
		if s.Artifacts[i].Name == name {
			return &s.Artifacts[i]
		}
	}
	return nil
}

// Form is how the values of a media type are written down.
type Form uint8

const (
	// FormUnset is no form: a write without a claim.
	FormUnset Form = iota
	FormBytes
	FormJSON
	FormText
)

// String names the form as the API does.
func (f Form) String() string {
	names := [...]string{FormUnset: "unset", FormBytes: "data", FormJSON: "json", FormText: "text"}
	if int(f) < len(names) {
		return names[f]
	}
	return "unknown"
}

// FormOf reads a media type without its parameters, in any case: JSON for
// application/json and +json, text for text/*, bytes for all others.
func FormOf(mediaType string) Form {
	base, _, _ := strings.Cut(mediaType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	switch {
	case base == "application/json" || strings.HasSuffix(base, "+json"):
		return FormJSON
	case strings.HasPrefix(base, "text/"):
		return FormText
	}
	return FormBytes
}

// FoldArtifact returns the value that a list of writes, in order, amounts to:
// for Replace the last one; for Append one JSON array (a value that is no array
// is one element), text joined by "\n", or other bytes in a row. No writes are
// nil. JSON values must be valid; they are taken over byte by byte.
func FoldArtifact(mediaType string, mode Mode, values [][]byte) []byte {
	if len(values) == 0 {
		return nil
	}
	if mode == Replace {
		return values[len(values)-1]
	}
	switch FormOf(mediaType) {
	case FormJSON:
		return foldJSON(values)
	case FormText:
		return bytes.Join(values, []byte("\n"))
	}
	return bytes.Join(values, nil)
}

func foldJSON(values [][]byte) []byte {
	out := []byte{'['}
	for _, v := range values {
		v = bytes.TrimSpace(v)
		if len(v) > 1 && v[0] == '[' {
			v = bytes.TrimSpace(v[1 : len(v)-1])
		}
		if len(v) == 0 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}
