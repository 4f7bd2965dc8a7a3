package codec

import "fmt"

// Place is where an entry stands in its run.
type Place struct {
	Run   string
	First uint64
}

// AppendPlace adds an entry to the value of a cursor row; nil begins one. The row's
// key has the cursor of the last.
func AppendPlace(b []byte, run string, first uint64) []byte {
	if b == nil {
		b = row(64)
	}
	b, mark := open(b, 1)
	return shut(appendUint(appendString(b, 1, run), 2, first), mark)
}

// DecodePlaces reads a cursor row: the entries in the order of their cursors, which
// are dense.
func DecodePlaces(value []byte) ([]Place, error) {
	if err := checkFormat("cursor row", value, 1); err != nil {
		return nil, err
	}
	var places []Place
	s := newScan("cursor row", value[1:])
	for s.next() {
		if s.num != 1 {
			s.unknown()
			break
		}
		p, err := readPlace(s.message())
		s.keep(err)
		places = append(places, p)
	}
	if s.err == nil && len(places) == 0 {
		return nil, fmt.Errorf("%w: cursor row without places", ErrCorrupt)
	}
	return places, s.err
}

func readPlace(b []byte) (Place, error) {
	var p Place
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
