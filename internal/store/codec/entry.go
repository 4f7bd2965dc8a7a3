package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Format is the version byte at the beginning of every value. This version of the program reads no
// other first byte except [FormatSealed].
const Format = 1

// These constants are the offsets of the parts of a journal entry's value, in this order: version byte,
// cursor, hash, previous hash, entry bytes. The previous hash is next to the entry bytes, so that the
// hashed bytes are contiguous.
const (
	cursorAt = 1
	hashAt   = cursorAt + 8
	prevAt   = hashAt + sha256.Size
	entryAt  = prevAt + sha256.Size
)

// EncodeEntry returns the value of one journal entry with the cursor 0, and the hash of the chain after
// the entry, which is SHA-256(prev ‖ entry bytes). [SetCursor] sets the cursor later. The records must
// have the seqs first, first+1 and so on.
func EncodeEntry(prev [32]byte, first uint64, in *machine.Input, records []machine.Record) ([]byte, [32]byte, error) {
	b, err := entryOf(prev, first, in, records)
	if err != nil {
		return nil, [32]byte{}, err
	}
	return b, appendChainHash(b, len(b)), nil
}

// appendChainHash computes the hash of the run's chain after an entry, over the bytes up to end, and writes the
// hash into the entry's value b.
func appendChainHash(b []byte, end int) [32]byte {
	hash := sha256.Sum256(b[prevAt:end])
	copy(b[hashAt:], hash[:])
	return hash
}

// entryOf returns the value of a journal entry with an empty hash and cursor.
func entryOf(prev [32]byte, first uint64, in *machine.Input, records []machine.Record) ([]byte, error) {
	b := make([]byte, entryAt, entryAt+512)
	b[0] = Format
	copy(b[prevAt:], prev[:])
	b = appendUint(b, 1, first)
	b, err := appendInput(b, 2, in)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("encode entry: no records")
	}
	of := bodiesOf(in)
	for i := range records {
		if records[i].Seq != first+uint64(i) {
			return nil, fmt.Errorf("encode entry: record %d has seq %d, want %d", i, records[i].Seq, first+uint64(i))
		}
		if b, err = appendRecord(b, 3, in, &of, &records[i]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// SetCursor writes the cursor into a value that [EncodeEntry] made. The cursor is the entry's position
// in the order of its namespace. It is not part of the hashed bytes.
func SetCursor(value []byte, cursor uint64) {
	binary.BigEndian.PutUint64(value[cursorAt:], cursor)
}

// EntryCursor returns the cursor of a stored entry, encrypted or not. It returns 0 if the value is not
// an entry.
func EntryCursor(value []byte) uint64 {
	if len(value) < entryAt || value[0] != Format && value[0] != FormatSealed {
		return 0
	}
	return binary.BigEndian.Uint64(value[cursorAt:])
}

// DecodeEntry decodes the value of a journal entry. run is the id of its run. DecodeEntry does not
// check the hash, see [Chained].
func DecodeEntry(run string, value []byte) (machine.Entry, error) {
	e := machine.Entry{RunID: run}
	if err := checkFormat("entry", value, entryAt); err != nil {
		return e, err
	}
	e.Cursor = binary.BigEndian.Uint64(value[cursorAt:])
	copy(e.Hash[:], value[hashAt:])
	copy(e.PrevHash[:], value[prevAt:])
	var of bodies
	s := newScan("entry", value[entryAt:])
	for s.next() {
		switch s.num {
		case 1:
			e.First = s.uint()
		case 2:
			var err error
			e.Input, err = readInput(s.message())
			s.keep(err)
			of = bodiesOf(&e.Input)
		case 3:
			if e.Input.Command == nil {
				s.fail("record before input")
				break
			}
			r, err := readRecord(s.message(), &e.Input, &of, e.First+uint64(len(e.Records)))
			s.keep(err)
			e.Records = append(e.Records, r)
		default:
			s.unknown()
		}
	}
	if s.err == nil && (e.First == 0 || len(e.Records) == 0) {
		return e, fmt.Errorf("%w: entry without records", ErrCorrupt)
	}
	return e, s.err
}

// Chained reports whether the hash in the value of a journal entry is the hash of the entry's bytes.
func Chained(value []byte) bool {
	if len(value) < entryAt {
		return false
	}
	end := len(value)
	if _, ok := KeySlot(value); ok && end >= entryAt+slotBytes {
		end -= slotBytes
	}
	hash := sha256.Sum256(value[prevAt:end])
	return bytes.Equal(hash[:], value[hashAt:prevAt])
}

// checkFormat returns an error if a value is too short or has another version byte.
func checkFormat(what string, value []byte, least int) error {
	if len(value) < least {
		return fmt.Errorf("%w: %s of %d bytes", ErrCorrupt, what, len(value))
	}
	if value[0] != Format {
		return fmt.Errorf("%w: %s has format %d, this version reads %d", ErrCorrupt, what, value[0], Format)
	}
	return nil
}

// appendInput encodes the input of a journal entry as the field num.
func appendInput(b []byte, num protowire.Number, in *machine.Input) ([]byte, error) {
	if in.Command == nil {
		return nil, fmt.Errorf("encode input: no command")
	}
	b, mark := open(b, num)
	b = appendTime(b, 1, in.At)
	b = appendString(b, 2, in.Principal)
	b = appendString(b, 3, in.ID)
	b = appendHash(b, 4, &in.BodyHash)
	b, err := appendCommand(b, in.Command, &none)
	if err != nil {
		return nil, err
	}
	b = appendUint(b, 36, uint64(in.Semantics))
	for i := range in.Billed {
		inner, mark := open(b, 230)
		b = shut(appendBill(inner, &in.Billed[i]), mark)
	}
	for i := range in.Evals {
		inner, mark := open(b, 231)
		b = shut(appendEvalResult(inner, &in.Evals[i]), mark)
	}
	for i := range in.Fills {
		var fill int
		b, fill = open(b, 240)
		b = shut(appendFill(b, &in.Fills[i]), fill)
	}
	return shut(b, mark), nil
}

// readInput decodes the input of a journal entry. It is the counterpart of appendInput.
func readInput(b []byte) (machine.Input, error) {
	var in machine.Input
	s := newScan("input", b)
	for s.next() {
		switch s.num {
		case 1:
			in.At = s.time()
		case 2:
			in.Principal = s.string()
		case 3:
			in.ID = s.string()
		case 4:
			s.fixed(in.BodyHash[:])
		case 36:
			in.Semantics = fit[machine.Semantics](s)
		case 230:
			var bill machine.Bill
			s.keep(readBill(s.message(), &bill))
			in.Billed = append(in.Billed, bill)
		case 231:
			var result machine.EvalResult
			s.keep(readEvalResult(s.message(), &result))
			in.Evals = append(in.Evals, result)
		case 240:
			var fill machine.Fill
			s.keep(readFill(s.message(), &fill))
			in.Fills = append(in.Fills, fill)
		default:
			if in.Command != nil {
				s.unknown()
				break
			}
			var err error
			if in.Command, err = readCommand(s.num, s.message(), &none); in.Command == nil {
				s.unknown()
			}
			s.keep(err)
		}
	}
	if s.err == nil && in.Command == nil {
		return in, fmt.Errorf("%w: input without command", ErrCorrupt)
	}
	return in, s.err
}

// appendRecord appends a record of a journal entry. It omits what the entry already contains: the seq,
// and the time and the principal if they are the same as in the input.
func appendRecord(b []byte, num protowire.Number, in *machine.Input, of *bodies, r *machine.Record) ([]byte, error) {
	if r.Body == nil {
		return nil, fmt.Errorf("encode record %d: no body", r.Seq)
	}
	b, mark := open(b, num)
	b = appendSint(b, 1, r.At-in.At)
	if r.Principal != in.Principal {
		b = appendPresent(b, 2, r.Principal)
	}
	b, err := appendBody(b, r.Body, of)
	if err != nil {
		return nil, fmt.Errorf("encode record %d: %w", r.Seq, err)
	}
	return shut(b, mark), nil
}

// readRecord decodes a record that appendRecord encoded. The record's seq is not stored, so the caller
// passes it.
func readRecord(b []byte, in *machine.Input, of *bodies, seq uint64) (machine.Record, error) {
	r := machine.Record{Seq: seq, At: in.At, Principal: in.Principal}
	s := newScan("record", b)
	for s.next() {
		switch s.num {
		case 1:
			r.At = in.At + s.sint()
		case 2:
			r.Principal = s.string()
		default:
			if r.Body != nil {
				s.unknown()
				break
			}
			var err error
			if r.Body, err = readBody(s.num, s.message(), of); r.Body == nil {
				s.unknown()
			}
			s.keep(err)
		}
	}
	if s.err == nil && r.Body == nil {
		return r, fmt.Errorf("%w: record %d without body", ErrCorrupt, seq)
	}
	return r, s.err
}

// EntryRef identifies a journal entry by its run and its first record. If Run is empty, the reference
// is a gap. A gap stands for a deleted entry.
type EntryRef struct {
	Run   string
	First uint64
}

// AppendEntryRef appends a reference to the value of a cursor row, which maps consecutive cursors to
// journal entries. If b is nil, it begins a new value. The row's key contains the cursor of the last
// entry.
func AppendEntryRef(b []byte, run string, first uint64) []byte {
	if b == nil {
		b = row(64)
	}
	b, mark := open(b, 1)
	return shut(appendUint(appendString(b, 1, run), 2, first), mark)
}

// Gap reports whether the entry that this reference stood for was deleted with its run.
func (p EntryRef) Gap() bool { return p.Run == "" }

// MostGaps is the maximum number of gaps (cursors of deleted entries) in one cursor row. The references before
// a gap count, too.
const MostGaps = 1 << 16

// EncodeEntryRefs returns the value of a cursor row, which refers to the journal entries of consecutive
// cursors. Consecutive gaps (references to deleted entries) together take as many bytes as one
// reference.
func EncodeEntryRefs(places []EntryRef) []byte {
	var b []byte
	for i := 0; i < len(places); {
		if !places[i].Gap() {
			b = AppendEntryRef(b, places[i].Run, places[i].First)
			i++
			continue
		}
		from := i
		for i < len(places) && places[i].Gap() {
			i++
		}
		b = AppendEntryRef(b, "", uint64(i-from))
	}
	return b
}

// DecodeEntryRefs decodes the value of a cursor row. The references are in the order of their cursors,
// which are consecutive.
func DecodeEntryRefs(value []byte) ([]EntryRef, error) {
	if err := checkFormat("cursor row", value, 1); err != nil {
		return nil, err
	}
	var places []EntryRef
	s := newScan("cursor row", value[1:])
	for s.next() {
		if s.num != 1 {
			s.unknown()
			break
		}
		p, err := readEntryRef(s.message())
		s.keep(err)
		if !p.Gap() {
			places = append(places, p)
			continue
		}
		if p.First == 0 || p.First > MostGaps-uint64(min(len(places), MostGaps)) {
			return nil, fmt.Errorf("%w: cursor row with a gap of %d behind %d places", ErrCorrupt, p.First, len(places))
		}
		places = append(places, make([]EntryRef, p.First)...)
	}
	if s.err == nil && len(places) == 0 {
		return nil, fmt.Errorf("%w: cursor row without places", ErrCorrupt)
	}
	return places, s.err
}

// readEntryRef decodes one reference of a cursor row.
func readEntryRef(b []byte) (EntryRef, error) {
	var p EntryRef
	s := newScan("place", b)
	for s.next() {
		switch s.num {
		case 1:
			p.Run = s.string()
		case 2:
			p.First = s.uint()
		default:
			s.unknown()
		}
	}
	return p, s.err
}

// bodies are the values of one input that the records of the entry may repeat. A record that repeats a
// whole body stores one flag instead. A record that repeats a single value stores the value's position
// in its list, counted from 1. The field names are those of the *_of_input fields in the schema.
type bodies struct {
	artifacts       []machine.ArtifactWrite
	output          []machine.Part
	messages        []machine.Message
	parts, question []machine.Part
	error           machine.Fault
	// state, conversations and steps are set only if the input starts a run as a fork (copy) of another
	// run.
	state         *machine.State
	conversations []machine.ConversationCopy
	steps         []machine.TakenStep
	// model is the request to a model in the input. answer is the model's answer.
	model  *machine.ModelRequest
	answer *machine.ModelAnswer
	// results are results of evals. Any input may have them.
	results []machine.EvalResult

	// A record may repeat a single value of one of these lists, or of artifacts, and then stores its position in
	// the list. result counts as a list of one value.
	requests []machine.StepRequest
	result   []byte
	queued   []machine.QueuedInput
}

// none is the empty set of bodies. It is used to encode inputs, which may not refer to bodies of
// another input. It is read-only.
var none bodies

// bodiesOf returns the values of an input that its records may repeat. The stored format depends on the
// result, so the function must not change.
func bodiesOf(in *machine.Input) bodies {
	of := bodiesOfCommand(in.Command)
	of.results = in.Evals
	return of
}

// bodiesOfCommand returns the values of a command that the records of its entry may repeat, see bodies.
func bodiesOfCommand(c machine.Command) bodies {
	switch c := c.(type) {
	case machine.Start:
		return bodies{parts: c.Input}
	case machine.EmitEvent:
		return bodies{artifacts: c.Artifacts}
	case machine.SetArtifacts:
		return bodies{artifacts: c.Artifacts}
	case machine.SendInput:
		return bodies{parts: c.Parts}
	case machine.CompleteTurn:
		return bodies{artifacts: c.Artifacts, output: c.Output, messages: c.Messages}
	case machine.FailTurn:
		return bodies{error: c.Error}
	case machine.RequestSteps:
		return bodies{requests: c.Requests}
	case machine.ResolveStep:
		return bodies{error: c.Error, result: c.Result}
	case machine.DecideStep:
		return bodies{result: c.Payload}
	case machine.RequestModel:
		return bodies{model: c.Model}
	case machine.AnswerModel:
		return bodies{error: c.Error, answer: c.Answer}
	case machine.WriteOutput:
		return bodies{parts: c.Piece.Parts}
	case machine.NoteDelegation:
		return bodies{question: c.Question}
	case machine.Fork:
		return bodies{
			artifacts: slices.Concat(c.Values, c.Changes), queued: c.Queued,
			state: c.From, conversations: c.Conversations, steps: c.Steps,
		}
	}
	return bodies{}
}

// refMin is the length in bytes from which a reference is shorter than the value itself.
const refMin = 4

// ref returns the reference to a value of the input: 1 plus the position of the value in its list. If the input
// does not have the value, or if a reference would not be shorter, it returns 0. An input has values in at most
// one of the three lists.
func (o *bodies) ref(v []byte) uint64 {
	if len(v) < refMin {
		return 0
	}
	if same(v, o.result) {
		return 1
	}
	for i := range o.requests {
		if same(v, o.requests[i].Payload) {
			return uint64(i) + 1
		}
	}
	for i := range o.artifacts {
		if same(v, o.artifacts[i].Value) {
			return uint64(i) + 1
		}
	}
	return 0
}

// value returns the value that a reference refers to. It returns false if the input has none.
func (o *bodies) value(ref uint64) ([]byte, bool) {
	at := ref - 1
	switch {
	case at == 0 && o.result != nil:
		return o.result, true
	case at < uint64(len(o.requests)):
		return o.requests[at].Payload, true
	case at < uint64(len(o.artifacts)):
		return o.artifacts[at].Value, true
	}
	return nil, false
}

// queuedRef returns the reference to a queued input with the given parts. It is 1 plus the position of
// the queued input in the run that a fork copies, or 0 if that run has none with these parts.
func (o *bodies) queuedRef(parts []machine.Part) uint64 {
	for i := range o.queued {
		if sameParts(parts, o.queued[i].Parts) {
			return uint64(i) + 1
		}
	}
	return 0
}

// same reports whether two values, which must not be empty, are equal. If both are the same memory, it
// does not compare the bytes.
func same(a, b []byte) bool {
	return len(a) == len(b) && (&a[0] == &b[0] || bytes.Equal(a, b))
}

func sameValue(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || same(a, b))
}

// The functions below whose names begin with same report whether a value in a record is equal to the same value
// in the entry's input. For an empty value they return false.

func sameWrites(a, b []machine.ArtifactWrite) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(x, y machine.ArtifactWrite) bool {
		return x.Name == y.Name && sameValue(x.Value, y.Value)
	})
}

func sameParts(a, b []machine.Part) bool { return len(a) > 0 && equalParts(a, b) }

func sameMessages(a, b []machine.Message) bool { return len(a) > 0 && equalMessages(a, b) }

func sameConversations(a, b []machine.ConversationCopy) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(x, y machine.ConversationCopy) bool {
		return x.State == y.State && equalMessages(x.Messages, y.Messages)
	})
}

func sameTaken(a, b []machine.TakenStep) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(x, y machine.TakenStep) bool {
		return x.Step == y.Step && x.Error == y.Error && x.Request == y.Request && x.Answer == y.Answer && x.Before == y.Before && sameValue(x.Payload, y.Payload) && sameValue(x.Result, y.Result)
	})
}

// A record refers to the eval results of its input only if both are the same slice.
func sameResults(a, b []machine.EvalResult) bool {
	return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0]
}

func sameFault(a, b machine.Fault) bool { return a == b && a != (machine.Fault{}) }

func sameState(a, b *machine.State) bool { return a == b && a != nil }

// A record refers to the model request or answer of its input only if both are the same pointer.

func sameModel(a, b *machine.ModelRequest) bool { return a == b && a != nil }

func sameAnswer(a, b *machine.ModelAnswer) bool { return a == b && a != nil }

func equalParts(a, b []machine.Part) bool {
	return slices.EqualFunc(a, b, func(x, y machine.Part) bool {
		return x.Kind == y.Kind && x.Text == y.Text && x.MediaType == y.MediaType && x.Filename == y.Filename &&
			sameValue(x.Data, y.Data) && sameValue(x.Metadata, y.Metadata)
	})
}

func equalMessages(a, b []machine.Message) bool {
	return slices.EqualFunc(a, b, func(x, y machine.Message) bool {
		return x.Role == y.Role && x.ToolCallID == y.ToolCallID &&
			sameValue(x.ToolCalls, y.ToolCalls) && equalParts(x.Parts, y.Parts) &&
			sameValue(x.Provider, y.Provider) && x.Refusal == y.Refusal
	})
}

// EntrySpan returns the first seq of a journal entry and the number of its records, without decoding
// the records.
func EntrySpan(value []byte) (first uint64, records int, err error) {
	if value, err = leftOf("entry", value, entryAt); err != nil {
		return 0, 0, err
	}
	if err := checkFormat("entry", value, entryAt); err != nil {
		return 0, 0, err
	}
	s := newScan("entry", value[entryAt:])
	for s.next() {
		switch s.num {
		case 1:
			first = s.uint()
		case 3:
			records++
		}
	}
	if s.err == nil && (first == 0 || records == 0) {
		s.err = fmt.Errorf("%w: entry without records", ErrCorrupt)
	}
	return first, records, s.err
}

// stepDecidedNum is the number of the field step_decided of a stored record.
const stepDecidedNum = 36

// EntryDecides returns the time of a journal entry, and whether one of its records is a decision about a held call, without decoding the rest. A
// search of the journal uses it, because it examines many entries and returns few.
func EntryDecides(value []byte) (at int64, decides bool, err error) {
	if value, err = leftOf("entry", value, entryAt); err != nil {
		return 0, false, err
	}
	if err := checkFormat("entry", value, entryAt); err != nil {
		return 0, false, err
	}
	s := newScan("entry", value[entryAt:])
	for s.next() {
		switch s.num {
		case 2:
			if in := newScan("input", s.message()); in.next() && in.num == 1 {
				at = in.time()
			}
		case 3:
			r := newScan("record", s.message())
			for r.next() {
				decides = decides || r.num == stepDecidedNum
			}
			s.keep(r.err)
		}
	}
	return at, decides, s.err
}

// EntryHash returns the hash of the run's chain after an entry. The caller must have checked the
// version byte.
func EntryHash(value []byte) (hash [32]byte) {
	copy(hash[:], value[min(hashAt, len(value)):])
	return hash
}
