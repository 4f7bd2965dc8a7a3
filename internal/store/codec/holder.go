package codec

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// EncodeHolder makes the value of the row of a step's outgoing work; that of a
// step that nobody holds is [Mark].
func EncodeHolder(h machine.StepHolder) []byte {
	b := appendString(append(make([]byte, 0, 48), Format), 1, h.Principal)
	b = appendString(b, 2, h.Worker)
	return appendString(b, 3, h.Instance)
}

// DecodeHolder is the inverse of [EncodeHolder].
func DecodeHolder(value []byte) (machine.StepHolder, error) {
	var h machine.StepHolder
	if err := checkFormat("outbox row", value, 1); err != nil {
		return h, err
	}
	s := newScan("outbox row", value[1:])
	for s.next() {
		switch s.num {
		case 1:
			h.Principal = s.string()
		case 2:
			h.Worker = s.string()
		case 3:
			h.Instance = s.string()
		default:
			s.unknown()
		}
	}
	return h, s.err
}
