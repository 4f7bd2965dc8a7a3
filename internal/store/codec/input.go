package codec

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

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
	for i := range in.Fills {
		var fill int
		b, fill = open(b, 240)
		b = shut(appendFill(b, &in.Fills[i]), fill)
	}
	return shut(b, mark), nil
}

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
