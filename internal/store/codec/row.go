package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Mark is the value of a row that only has to exist, because its key contains all the information.
var Mark = []byte{Format}

// row begins the value of a row with the version byte. size is the expected size in bytes.
func row(size int) []byte { return append(make([]byte, 0, size), Format) }

// decode decodes a value into v. The caller must already have set the fields of v that the key
// contains.
func decode[T any](what string, value []byte, v *T, read func(b []byte, v *T) error) error {
	if err := checkFormat(what, value, 1); err != nil {
		return err
	}
	return read(value[1:], v)
}

// EncodeDedupe returns the value of an idempotency row, which stores that a request id was used.
func EncodeDedupe(d *machine.Dedupe) []byte {
	stored := *d
	// The key of a row in the scope of a run already contains the run's id.
	if d.Scope != machine.PerPrincipal {
		stored.RunID = ""
	}
	return appendDedupe(row(64), &stored)
}

// DecodeDedupe returns key, which identifies an idempotency row, with the fields of the stored value
// filled in.
func DecodeDedupe(key machine.Dedupe, value []byte) (machine.Dedupe, error) {
	key.BodyHash, key.First, key.Last = [32]byte{}, 0, 0
	err := decode("idempotency row", value, &key, readDedupe)
	return key, err
}

// EncodePackBytes returns the value of the row that contains a pack's bytes. The key of the row
// contains the digest.
func EncodePackBytes(r *machine.PackRow) []byte {
	return appendPackBytes(row(16+len(r.Canonical)+len(r.Source)), r)
}

// DecodePackBytes sets r.Canonical and r.Source from the stored value.
func DecodePackBytes(r *machine.PackRow, value []byte) error {
	return decode("pack", value, r, readPackBytes)
}

// EncodePackName returns the value of the two rows of a pack: the row by name and the row by digest.
func EncodePackName(r *machine.PackRow) []byte { return appendPackName(row(128), r) }

// DecodePackName decodes a value that [EncodePackName] returned.
func DecodePackName(value []byte) (r machine.PackRow, err error) {
	err = decode("pack name", value, &r, readPackName)
	return r, err
}

// EncodeHolder returns the value of a step's outbox row: the worker that executes the step. If no
// worker does, the value is equal to [Mark].
func EncodeHolder(h machine.StepHolder) []byte { return appendStepHolder(row(48), &h) }

// DecodeHolder decodes a value that [EncodeHolder] returned.
func DecodeHolder(value []byte) (h machine.StepHolder, err error) {
	err = decode("outbox row", value, &h, readStepHolder)
	return h, err
}

// EncodeBlob returns the value of a blob's row. The key contains the blob's hash.
func EncodeBlob(b *machine.Blob) []byte { return appendBlob(row(64), b) }

// DecodeBlob decodes a value that [EncodeBlob] returned.
func DecodeBlob(value []byte) (b machine.Blob, err error) {
	err = decode("blob", value, &b, readBlob)
	return b, err
}

// EncodeUpload returns the value of an upload's row.
func EncodeUpload(u *machine.Upload) []byte { return appendUpload(row(48), u) }

// DecodeUpload decodes a value that [EncodeUpload] returned.
func DecodeUpload(value []byte) (u machine.Upload, err error) {
	err = decode("upload", value, &u, readUpload)
	return u, err
}

// EncodeSubscription returns the value of a subscription's row. The key contains the fields of
// SubscriptionKey.
func EncodeSubscription(s *machine.Subscription) []byte { return appendSubscription(row(256), s) }

// DecodeSubscription decodes a value that [EncodeSubscription] returned. It does not set SubscriptionKey, which
// is in the row's key.
func DecodeSubscription(value []byte) (s machine.Subscription, err error) {
	err = decode("subscription", value, &s, readSubscription)
	return s, err
}

// EncodeDeadLetter returns the value of a dead letter's row. The key contains the number of the dead
// letter.
func EncodeDeadLetter(d *machine.DeadLetter) []byte { return appendDeadLetter(row(64+len(d.Body)), d) }

// DecodeDeadLetter decodes a value that [EncodeDeadLetter] returned. It does not set the number, which is in
// the row's key.
func DecodeDeadLetter(value []byte) (d machine.DeadLetter, err error) {
	err = decode("dead letter", value, &d, readDeadLetter)
	return d, err
}

// EncodeDeleted returns the value of the row of a deleted run. The key contains the run's id.
func EncodeDeleted(d *machine.Deleted) []byte { return appendDeleted(row(96), d) }

// DecodeDeleted decodes a value that [EncodeDeleted] returned. It does not set the run's id, which is in the
// row's key.
func DecodeDeleted(value []byte) (d machine.Deleted, err error) {
	err = decode("deleted run", value, &d, readDeleted)
	return d, err
}

// EncodeEffect returns the value of the row of a business key. The row's key contains the business
// key.
func EncodeEffect(e *machine.Effect) []byte { return appendEffect(row(48), e) }

// DecodeEffect decodes a value that [EncodeEffect] returned. It does not set the business key, which is in the
// row's key.
func DecodeEffect(value []byte) (e machine.Effect, err error) {
	err = decode("business key", value, &e, readEffect)
	return e, err
}

// EncodeSchedule returns the value of a schedule's row. The key contains the schedule's id.
func EncodeSchedule(m *machine.ScheduleMark) []byte { return appendScheduleMark(row(96), m) }

// DecodeSchedule decodes a value that [EncodeSchedule] returned. It does not set the schedule's id, which is in
// the row's key.
func DecodeSchedule(value []byte) (m machine.ScheduleMark, err error) {
	err = decode("schedule", value, &m, readScheduleMark)
	return m, err
}

// EncodeNumber returns the value of a row that contains one number, for example a seq, a turn, or the watermark
// of a queue.
func EncodeNumber(n uint64) []byte {
	return binary.BigEndian.AppendUint64(row(9), n)
}

// DecodeNumber decodes a value that [EncodeNumber] returned.
func DecodeNumber(value []byte) (uint64, error) {
	if err := checkFormat("number row", value, 9); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value[1:]), nil
}

// EncodeErased returns the value of the row of a run whose values were erased. The key contains the
// run's id.
func EncodeErased(e *machine.Erased) []byte { return appendErased(row(64), e) }

// DecodeErased decodes a value that [EncodeErased] returned. It does not set the run's id, which is in the
// row's key.
func DecodeErased(value []byte) (e machine.Erased, err error) {
	err = decode("erased run", value, &e, readErased)
	return e, err
}

// usageBytes is the size in bytes of the value of a rollup of usage: four numbers.
const usageBytes = 1 + 4*8

// EncodeUsage returns the value of a rollup of usage. The key contains what it is a sum of.
func EncodeUsage(u *machine.UsageSum) []byte {
	b := row(usageBytes)
	for _, n := range []int64{u.InputTokens, u.OutputTokens, u.CostMicro, u.Reports} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// DecodeUsage decodes a value that [EncodeUsage] returned.
func DecodeUsage(value []byte) (u machine.UsageSum, err error) {
	if err := checkFormat("usage", value, usageBytes); err != nil {
		return u, err
	}
	for i, n := range []*int64{&u.InputTokens, &u.OutputTokens, &u.CostMicro, &u.Reports} {
		if *n = int64(binary.BigEndian.Uint64(value[1+8*i:])); *n < 0 {
			return u, fmt.Errorf("usage: figure %d is negative", i+1)
		}
	}
	return u, nil
}

// AccountBytes is the maximum size in bytes of the value of an account's row: seven numbers with
// their tags.
const AccountBytes = 1 + 7*11

// EncodeAccount returns the value of an account's row. The key contains the account's name.
func EncodeAccount(r *machine.AccountRow) []byte { return appendAccountRow(row(AccountBytes), r) }

// DecodeAccount decodes a value that [EncodeAccount] returned. It does not set the account's name, which is in
// the row's key.
func DecodeAccount(value []byte) (r machine.AccountRow, err error) {
	err = decode("account", value, &r, readAccountRow)
	return r, err
}

// stateAt is the offset of the encoded state in the value of a head (stored state of a run), behind the
// version byte and the seq. The seq has a fixed position, because the committer compares it without
// decoding the state.
const stateAt = 1 + 8

// EncodeHead returns the value of a run's head (current state) or of a checkpoint. The value contains
// hash as the end of the run's hash chain, instead of st.PrevHash.
func EncodeHead(st *machine.State, hash [32]byte) []byte {
	b := make([]byte, stateAt, stateAt+1024)
	b[0] = Format
	binary.BigEndian.PutUint64(b[1:], st.Seq)
	head := *st
	head.PrevHash = hash
	return appendState(b, &head)
}

// HeadSeq returns the last seq of a head (stored current state) without decoding the state.
func HeadSeq(value []byte) (uint64, error) {
	if _, ok := KeySlot(value); !ok || len(value) < stateAt {
		if err := checkFormat("head", value, stateAt); err != nil {
			return 0, err
		}
	}
	return binary.BigEndian.Uint64(value[1:]), nil
}

// currentNum is the number of the field of State that contains the name of the current workflow state.
const currentNum = 21

// HeadCurrent returns the name of the current workflow state from the value of a head, without decoding
// the rest. The result is a part of value. Lists use HeadCurrent because they examine many heads and
// return few.
func HeadCurrent(value []byte) ([]byte, error) {
	value, err := leftOf("head", value, stateAt)
	if err != nil {
		return nil, err
	}
	if err := checkFormat("head", value, stateAt); err != nil {
		return nil, err
	}
	s := newScan("state", value[stateAt:])
	for s.next() && s.num <= currentNum {
		if s.num == currentNum {
			return s.message(), s.err
		}
	}
	return nil, s.err
}

// DecodeHead decodes a head (current state of a run) or a checkpoint. The state shares no memory with
// value.
func DecodeHead(value []byte) (*machine.State, error) {
	if err := checkFormat("head", value, stateAt); err != nil {
		return nil, err
	}
	seq, err := HeadSeq(value)
	if err != nil {
		return nil, err
	}
	st := &machine.State{}
	if err := readState(value[stateAt:], st); err != nil { //nolint:gosec // checkFormat has seen as many bytes
		return nil, err
	}
	if st.Seq != seq {
		return nil, fmt.Errorf("%w: head of seq %d holds a state of seq %d", ErrCorrupt, seq, st.Seq)
	}
	return st, nil
}

// EncodeVersions returns the value of an artifact row: the versions of one artifact that were written
// since its previous row, in order.
func EncodeVersions(versions []machine.ArtifactVersion) []byte {
	b := row(2 + 16*len(versions))
	for i := range versions {
		var mark int
		b, mark = open(b, 1)
		b = shut(appendArtifactVersion(b, &versions[i]), mark)
	}
	return b
}

// DecodeVersions decodes the value of an artifact row. name is the artifact's name, which is in the
// row's key.
func DecodeVersions(name string, value []byte) ([]machine.ArtifactVersion, error) {
	if err := checkFormat("artifact row", value, 1); err != nil {
		return nil, err
	}
	var versions []machine.ArtifactVersion
	s := newScan("artifact row", value[1:])
	for s.next() {
		if s.num != 1 {
			s.unknown()
			break
		}
		v := machine.ArtifactVersion{Name: name}
		s.keep(readArtifactVersion(s.message(), &v))
		versions = append(versions, v)
	}
	return versions, s.err
}
