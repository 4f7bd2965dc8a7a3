package layout

import (
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// SubscriptionKey is the key of a subscription, or with [KindDeadLetter] what those of its dead
// letters begin with.
func SubscriptionKey(row byte, key machine.SubscriptionKey) []byte {
	b := append(Prefix(nil, row, key.Namespace), byte(key.Kind))
	return AppendName(AppendName(b, key.Run), key.ID)
}

// DeadLetterKey is the key of a dead letter by its number.
func DeadLetterKey(key machine.SubscriptionKey, n uint64) []byte {
	return Number(SubscriptionKey(KindDeadLetter, key), n)
}

// ReadSubscriptionKey is the inverse of subscriptionKey; rest is what follows.
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
