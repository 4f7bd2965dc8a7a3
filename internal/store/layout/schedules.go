package layout

import (
	"encoding/binary"
	"fmt"
)

// ScheduleKey returns the key of a schedule's row.
func ScheduleKey(ns uint32, id string) []byte { return AppendName(Prefix(nil, KindSchedule, ns), id) }

// ReadScheduleKey is the inverse of [ScheduleKey].
func ReadScheduleKey(key []byte) (ns uint32, id string, err error) {
	if len(key) > 5 {
		if id, rest, ok := CutName(key[5:]); ok && len(rest) == 0 {
			return binary.BigEndian.Uint32(key[1:]), id, nil
		}
	}
	return 0, "", fmt.Errorf("malformed schedule key %x", key)
}
