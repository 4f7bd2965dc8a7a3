package codec

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// appendRecord appends a record of an entry. It omits what the entry already contains: the seq, and the
// time and the principal if they are the same as in the input.
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

// readRecord is the inverse of appendRecord. The caller computes seq from the record's position in the
// entry.
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
