package codec

import (
	"encoding/binary"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Mark is the value of rows whose key holds all the information.
var Mark = []byte{Format}

// row begins a value that size bytes will mostly do for.
func row(size int) []byte { return append(make([]byte, 0, size), Format) }

// decode completes v, of which the caller has filled what the key says.
func decode[T any](what string, value []byte, v *T, read func(b []byte, v *T) error) error {
	if err := checkFormat(what, value, 1); err != nil {
		return err
	}
	return read(value[1:], v)
}

// EncodeDedupe makes the value of an idempotency row.
func EncodeDedupe(d *machine.Dedupe) []byte {
	stored := *d
	if d.Scope != machine.PerPrincipal {
		stored.RunID = ""
	}
	return appendDedupe(row(64), &stored)
}

// DecodeDedupe completes key, which names the row, with the stored value.
func DecodeDedupe(key machine.Dedupe, value []byte) (machine.Dedupe, error) {
	key.BodyHash, key.First, key.Last = [32]byte{}, 0, 0
	err := decode("idempotency row", value, &key, readDedupe)
	return key, err
}

// EncodePackBytes makes the value of a pack by digest.
func EncodePackBytes(r *machine.PackRow) []byte {
	return appendPackBytes(row(16+len(r.Canonical)+len(r.Source)), r)
}

// DecodePackBytes fills Canonical and Source.
func DecodePackBytes(r *machine.PackRow, value []byte) error {
	return decode("pack", value, r, readPackBytes)
}

// EncodePackName makes the value of a pack's rows by name and by digest.
func EncodePackName(r *machine.PackRow) []byte { return appendPackName(row(128), r) }

// DecodePackName is the inverse of [EncodePackName].
func DecodePackName(value []byte) (r machine.PackRow, err error) {
	err = decode("pack name", value, &r, readPackName)
	return r, err
}

// EncodeHolder makes the value of the row of a step's outgoing work. For a step without a
// holder it is [Mark].
func EncodeHolder(h machine.StepHolder) []byte { return appendStepHolder(row(48), &h) }

// DecodeHolder is the inverse of [EncodeHolder].
func DecodeHolder(value []byte) (h machine.StepHolder, err error) {
	err = decode("outbox row", value, &h, readStepHolder)
	return h, err
}

// EncodeBlob makes the value of a blob's row; its hash is in the key.
func EncodeBlob(b *machine.Blob) []byte { return appendBlob(row(64), b) }

// DecodeBlob is the inverse of [EncodeBlob].
func DecodeBlob(value []byte) (b machine.Blob, err error) {
	err = decode("blob", value, &b, readBlob)
	return b, err
}

// EncodeUpload makes the value of an upload's row.
func EncodeUpload(u *machine.Upload) []byte { return appendUpload(row(48), u) }

// DecodeUpload is the inverse of [EncodeUpload].
func DecodeUpload(value []byte) (u machine.Upload, err error) {
	err = decode("upload", value, &u, readUpload)
	return u, err
}

// EncodeSubscription makes the value of a subscription's row; its key has the rest.
func EncodeSubscription(s *machine.Subscription) []byte { return appendSubscription(row(256), s) }

// DecodeSubscription is the inverse of [EncodeSubscription], less the key.
func DecodeSubscription(value []byte) (s machine.Subscription, err error) {
	err = decode("subscription", value, &s, readSubscription)
	return s, err
}

// EncodeDeadLetter makes the value of a dead letter's row; its number is in the key.
func EncodeDeadLetter(d *machine.DeadLetter) []byte { return appendDeadLetter(row(64+len(d.Body)), d) }

// DecodeDeadLetter is the inverse of [EncodeDeadLetter], less the number.
func DecodeDeadLetter(value []byte) (d machine.DeadLetter, err error) {
	err = decode("dead letter", value, &d, readDeadLetter)
	return d, err
}

// EncodeDeleted makes the value of the row of a deleted run; its id is in the key.
func EncodeDeleted(d *machine.Deleted) []byte { return appendDeleted(row(96), d) }

// DecodeDeleted is the inverse of [EncodeDeleted], less the id.
func DecodeDeleted(value []byte) (d machine.Deleted, err error) {
	err = decode("deleted run", value, &d, readDeleted)
	return d, err
}

// EncodeEffect makes the value of the row of a business key, which is in the key.
func EncodeEffect(e *machine.Effect) []byte { return appendEffect(row(48), e) }

// DecodeEffect is the inverse of [EncodeEffect], less the key.
func DecodeEffect(value []byte) (e machine.Effect, err error) {
	err = decode("business key", value, &e, readEffect)
	return e, err
}

// EncodeSchedule makes the value of a schedule's row; its id is in the key.
func EncodeSchedule(m *machine.ScheduleMark) []byte { return appendScheduleMark(row(96), m) }

// DecodeSchedule is the inverse of [EncodeSchedule], less the id.
func DecodeSchedule(value []byte) (m machine.ScheduleMark, err error) {
	err = decode("schedule", value, &m, readScheduleMark)
	return m, err
}

// EncodeNumber makes the value of rows that hold one number: a seq, a turn, a
// watermark.
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

// EncodeErased makes the value of the row of a run whose values were erased. The run's id is in
// the key.
func EncodeErased(e *machine.Erased) []byte { return appendErased(row(64), e) }

// DecodeErased is the inverse of [EncodeErased], less the id.
func DecodeErased(value []byte) (e machine.Erased, err error) {
	err = decode("erased run", value, &e, readErased)
	return e, err
}

// AccountBytes bounds the value of an account's row: seven figures with their tags.
const AccountBytes = 1 + 7*11

// EncodeAccount makes the value of an account's row; its name is in the key.
func EncodeAccount(r *machine.AccountRow) []byte { return appendAccountRow(row(AccountBytes), r) }

// DecodeAccount is the inverse of [EncodeAccount], less the name.
func DecodeAccount(value []byte) (r machine.AccountRow, err error) {
	err = decode("account", value, &r, readAccountRow)
	return r, err
}
