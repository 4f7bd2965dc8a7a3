package codec

import (
	"encoding/binary"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Mark is the value of a row whose key contains all the information.
var Mark = []byte{Format}

// row begins a value. size is the expected size in bytes.
func row(size int) []byte { return append(make([]byte, 0, size), Format) }

// decode decodes a value into v. The caller must already have set the fields of v that the key
// contains.
func decode[T any](what string, value []byte, v *T, read func(b []byte, v *T) error) error {
	if err := checkFormat(what, value, 1); err != nil {
		return err
	}
	return read(value[1:], v)
}

// EncodeDedupe returns the value of an idempotency row.
func EncodeDedupe(d *machine.Dedupe) []byte {
	stored := *d
	if d.Scope != machine.PerPrincipal {
		stored.RunID = ""
	}
	return appendDedupe(row(64), &stored)
}

// DecodeDedupe returns key, which identifies the row, with the fields of the stored value filled
// in.
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

// DecodePackName is the inverse of [EncodePackName].
func DecodePackName(value []byte) (r machine.PackRow, err error) {
	err = decode("pack name", value, &r, readPackName)
	return r, err
}

// EncodeHolder returns the value of the row of a step's outgoing work. The value contains the worker
// that holds the step. If no worker holds it, the value is equal to [Mark].
func EncodeHolder(h machine.StepHolder) []byte { return appendStepHolder(row(48), &h) }

// DecodeHolder is the inverse of [EncodeHolder].
func DecodeHolder(value []byte) (h machine.StepHolder, err error) {
	err = decode("outbox row", value, &h, readStepHolder)
	return h, err
}

// EncodeBlob returns the value of a blob's row. The key contains the blob's hash.
func EncodeBlob(b *machine.Blob) []byte { return appendBlob(row(64), b) }

// DecodeBlob is the inverse of [EncodeBlob].
func DecodeBlob(value []byte) (b machine.Blob, err error) {
	err = decode("blob", value, &b, readBlob)
	return b, err
}

// EncodeUpload returns the value of an upload's row.
func EncodeUpload(u *machine.Upload) []byte { return appendUpload(row(48), u) }

// DecodeUpload is the inverse of [EncodeUpload].
func DecodeUpload(value []byte) (u machine.Upload, err error) {
	err = decode("upload", value, &u, readUpload)
	return u, err
}

// EncodeSubscription returns the value of a subscription's row. The key contains the fields of
// SubscriptionKey.
func EncodeSubscription(s *machine.Subscription) []byte { return appendSubscription(row(256), s) }

// DecodeSubscription is the inverse of [EncodeSubscription]. It does not set SubscriptionKey, which
// is in the row's key.
func DecodeSubscription(value []byte) (s machine.Subscription, err error) {
	err = decode("subscription", value, &s, readSubscription)
	return s, err
}

// EncodeDeadLetter returns the value of a dead letter's row. The key contains the number of the dead
// letter.
func EncodeDeadLetter(d *machine.DeadLetter) []byte { return appendDeadLetter(row(64+len(d.Body)), d) }

// DecodeDeadLetter is the inverse of [EncodeDeadLetter]. It does not set the number, which is in
// the row's key.
func DecodeDeadLetter(value []byte) (d machine.DeadLetter, err error) {
	err = decode("dead letter", value, &d, readDeadLetter)
	return d, err
}

// EncodeDeleted returns the value of the row of a deleted run. The key contains the run's id.
func EncodeDeleted(d *machine.Deleted) []byte { return appendDeleted(row(96), d) }

// DecodeDeleted is the inverse of [EncodeDeleted]. It does not set the run's id, which is in the
// row's key.
func DecodeDeleted(value []byte) (d machine.Deleted, err error) {
	err = decode("deleted run", value, &d, readDeleted)
	return d, err
}

// EncodeEffect returns the value of the row of a business key. The row's key contains the business
// key.
func EncodeEffect(e *machine.Effect) []byte { return appendEffect(row(48), e) }

// DecodeEffect is the inverse of [EncodeEffect]. It does not set the business key, which is in the
// row's key.
func DecodeEffect(value []byte) (e machine.Effect, err error) {
	err = decode("business key", value, &e, readEffect)
	return e, err
}

// EncodeSchedule returns the value of a schedule's row. The key contains the schedule's id.
func EncodeSchedule(m *machine.ScheduleMark) []byte { return appendScheduleMark(row(96), m) }

// DecodeSchedule is the inverse of [EncodeSchedule]. It does not set the schedule's id, which is in
// the row's key.
func DecodeSchedule(value []byte) (m machine.ScheduleMark, err error) {
	err = decode("schedule", value, &m, readScheduleMark)
	return m, err
}

// EncodeNumber returns the value of a row that contains one number: a seq, a turn or a watermark.
func EncodeNumber(n uint64) []byte {
	return binary.BigEndian.AppendUint64(row(9), n)
}

// DecodeNumber is the inverse of [EncodeNumber].
func DecodeNumber(value []byte) (uint64, error) {
	if err := checkFormat("number row", value, 9); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value[1:]), nil
}

// EncodeErased returns the value of the row of a run whose values were erased. The key contains the
// run's id.
func EncodeErased(e *machine.Erased) []byte { return appendErased(row(64), e) }

// DecodeErased is the inverse of [EncodeErased]. It does not set the run's id, which is in the
// row's key.
func DecodeErased(value []byte) (e machine.Erased, err error) {
	err = decode("erased run", value, &e, readErased)
	return e, err
}

// AccountBytes is the maximum size in bytes of the value of an account's row: seven numbers with
// their tags.
const AccountBytes = 1 + 7*11

// EncodeAccount returns the value of an account's row. The key contains the account's name.
func EncodeAccount(r *machine.AccountRow) []byte { return appendAccountRow(row(AccountBytes), r) }

// DecodeAccount is the inverse of [EncodeAccount]. It does not set the account's name, which is in
// the row's key.
func DecodeAccount(value []byte) (r machine.AccountRow, err error) {
	err = decode("account", value, &r, readAccountRow)
	return r, err
}
