package rules

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// setArtifacts writes artifacts without a transition.
func (t *txn) setArtifacts(c *machine.SetArtifacts) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	if len(c.Artifacts) == 0 {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_ARTIFACTS", Field: "artifacts", Message: "nothing to write"}
	}
	if err := t.checkWrites(c.Artifacts); err != nil {
		return err
	}
	t.write(c.Artifacts, t.record(&machine.ArtifactsSet{Artifacts: c.Artifacts}))
	return nil
}

// checkWrites checks the artifact writes of one input (check 8 of semantics §4). The name of each write
// must be declared and may be used once. The value must be small enough and of the declared type. The
// total size of the run's artifacts must stay within its bound.
func (t *txn) checkWrites(writes []machine.ArtifactWrite) error {
	if len(writes) == 0 {
		return nil
	}
	total := t.s.ArtifactBytes
	for i := range writes {
		w := &writes[i]
		decl, ok := t.g.Artifacts[w.Name]
		if !ok {
			return t.undeclaredArtifact(w.Name)
		}
		if slices.ContainsFunc(writes[:i], func(o machine.ArtifactWrite) bool { return o.Name == w.Name }) {
			return &machine.Error{
				Code: machine.CodeInvalidArgument, Reason: "DUPLICATE_ARTIFACT", Field: Field(w.Name),
				Message: "written twice in one request",
			}
		}
		if err := First(t.checkSize(w), CheckType(w, decl.Type)); err != nil {
			return err
		}
		total += int64(len(w.Value))
		if head := HeadOf(t.s, w.Name); head != nil && decl.Mode == machine.Replace {
			total -= head.Bytes
		}
	}
	return t.checkTotal(total)
}

func (t *txn) undeclaredArtifact(name string) error {
	return &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: "UNDECLARED_ARTIFACT", Field: Field(name),
		Message: "no state of the pack declares it", Allowed: slices.Sorted(maps.Keys(t.g.Artifacts)),
	}
}

// checkSize returns an error if a value exceeds the operator's limit or the limit of the pack.
func (t *txn) checkSize(w *machine.ArtifactWrite) error {
	limit := t.s.Limits.MaxArtifactBytes
	if own := t.g.MaxArtifactBytes; own > 0 && own < limit {
		limit = own
	}
	got := int64(len(w.Value))
	if got <= limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "ARTIFACT_TOO_LARGE", Field: Field(w.Name),
		Message: fmt.Sprintf("%d bytes, at most %d: store it elsewhere and write a reference to it", got, limit),
		Limit:   limit, Got: got,
	}
}

func (t *txn) checkTotal(total int64) error {
	limit := t.s.Limits.MaxRunArtifactBytes
	if own := t.g.MaxRunArtifactBytes; own > 0 && own < limit {
		limit = own
	}
	if total <= limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "ARTIFACTS_TOO_LARGE", Field: "artifacts",
		Message: fmt.Sprintf("the run's artifacts would hold %d bytes, at most %d: store them elsewhere and write references", total, limit),
		Limit:   limit, Got: total,
	}
}

// write applies writes to the artifacts in the state. The caller has checked them. seq is the number of
// the record that contains the values.
func (t *txn) write(writes []machine.ArtifactWrite, seq uint64) {
	if len(writes) == 0 {
		return
	}
	if !t.copied.artifacts {
		t.s.Artifacts, t.copied.artifacts = slices.Clone(t.s.Artifacts), true
	}
	for i := range writes {
		w := &writes[i]
		decl := t.g.Artifacts[w.Name]
		head := HeadOf(t.s, w.Name)
		if head == nil {
			t.s.Artifacts = append(t.s.Artifacts, machine.ArtifactHead{Name: w.Name, Type: decl.Type, Mode: decl.Mode})
			head = &t.s.Artifacts[len(t.s.Artifacts)-1]
		}
		before := head.Bytes
		updateHead(head, seq, w.Value)
		t.s.ArtifactBytes += head.Bytes - before
		t.writes = append(t.writes, machine.ArtifactVersion{Name: w.Name, Seq: seq, Mode: decl.Mode, Bytes: int64(len(w.Value))})
	}
}

// updateHead adds one write to the metadata of an artifact. With the mode Replace, Hash is the SHA-256
// of the value. With Append, Hash is the SHA-256 of the previous hash (zero at first) and the value, so
// that the earlier values are not needed to compute it.
func updateHead(h *machine.ArtifactHead, seq uint64, value []byte) {
	h.Seq = seq
	h.Writes++
	if h.Mode == machine.Replace {
		h.Bytes, h.Hash = int64(len(value)), sha256.Sum256(value)
		return
	}
	sum := sha256.New()
	sum.Write(h.Hash[:])
	sum.Write(value)
	sum.Sum(h.Hash[:0])
	h.Bytes += int64(len(value))
}

// HeadOf returns the metadata of an artifact. It returns nil if the artifact was never written.
func HeadOf(s *machine.State, name string) *machine.ArtifactHead {
	for i := range s.Artifacts {
		if s.Artifacts[i].Name == name {
			return &s.Artifacts[i]
		}
	}
	return nil
}

// CheckType checks a value against the media type of its artifact. JSON must parse, text must be valid
// UTF-8, and other values may be any bytes. If the caller specified a form or type, it must match the
// media type.
func CheckType(w *machine.ArtifactWrite, mediaType string) error {
	form := machine.FormOf(mediaType)
	refuse := func(format string, args ...any) error {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "ARTIFACT_TYPE", Field: Field(w.Name), Allowed: []string{mediaType},
			Message: fmt.Sprintf("declared %s, but the value ", mediaType) + fmt.Sprintf(format, args...),
		}
	}
	switch {
	case w.Type != "" && w.Type != mediaType:
		return refuse("is said to be %s", w.Type)
	case w.Form != machine.FormUnset && w.Form != form:
		return refuse("was given as %s; want it as %s", w.Form, form)
	case form == machine.FormJSON && !json.Valid(w.Value), form == machine.FormText && !utf8.Valid(w.Value):
		return refuse("is not %s", map[machine.Form]string{machine.FormJSON: "JSON", machine.FormText: "UTF-8 text"}[form])
	}
	return nil
}

// Field returns the field path that an error about the artifact contains.
func Field(artifact string) string { return "artifacts[" + artifact + "]" }

// writeOutput records a piece of output of the open turn. The size of the piece counts against the
// bound of the run's messages.
func (t *txn) writeOutput(c *machine.WriteOutput) error {
	if err := First(t.checkOpen(), t.checkTurn(c.TurnSeq, c.Attempt), CheckPiece(&c.Piece)); err != nil {
		return err
	}
	size := PieceBytes(&c.Piece)
	if err := t.checkMessageBytes(size); err != nil {
		return err
	}
	t.assign(c.Assigned)
	t.clearBackoff()
	t.record(&machine.OutputWritten{TurnSeq: c.TurnSeq, Attempt: c.Attempt, Piece: c.Piece})
	t.s.MessageBytes += size
	return nil
}
