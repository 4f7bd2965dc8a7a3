package layout

import (
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// SubscriptionKey returns the key of a subscription's row. If row is [KindDeadLetter], it returns the
// prefix of the keys of the subscription's dead letters.
func SubscriptionKey(row byte, key machine.SubscriptionKey) []byte {
	b := append(Prefix(nil, row, key.Namespace), byte(key.Kind))
	return AppendName(AppendName(b, key.Run), key.ID)
}

// DeadLetterKey returns the key of the dead letter with the number n.
func DeadLetterKey(key machine.SubscriptionKey, n uint64) []byte {
	return Number(SubscriptionKey(KindDeadLetter, key), n)
}

// ReadSubscriptionKey is the inverse of [SubscriptionKey]. rest is the part of b after the
// subscription's key.
func ReadSubscriptionKey(b []byte) (key machine.SubscriptionKey, rest []byte, err error) {
	if len(b) < 6 {
		return key, nil, fmt.Errorf("malformed subscription key %x", b)
	}
	key.Namespace, key.Kind = binary.BigEndian.Uint32(b[1:5]), machine.SubscriptionKind(b[5])
	var ok bool
	if key.Run, rest, ok = CutName(b[6:]); ok {
		key.ID, rest, ok = CutName(rest)
	}
	if !ok {
		return key, nil, fmt.Errorf("malformed subscription key %x", b)
	}
	return key, rest, nil
}
