package codec

import "fmt"

// EntryRef identifies an entry by its run and its first record. If Run is empty, the reference is a
// gap. A gap stands for an entry whose run was deleted.
type EntryRef struct {
	Run   string
	First uint64
}

// AppendEntryRef appends an entry to the value of a row of cursors. If b is nil, it begins a new
// value. The row's key contains the cursor of the last entry.
func AppendEntryRef(b []byte, run string, first uint64) []byte {
	if b == nil {
		b = row(64)
	}
	b, mark := open(b, 1)
	return shut(appendUint(appendString(b, 1, run), 2, first), mark)
}

// Gap reports whether the entry's run was deleted.
func (p EntryRef) Gap() bool { return p.Run == "" }

// MostGaps is the maximum number of gaps in one row of cursors.
const MostGaps = 1 << 16

// EncodeEntryRefs returns the value of a row of cursors. A sequence of adjacent gaps takes only as many
// bytes as one reference.
func EncodeEntryRefs(places []EntryRef) []byte {
	var b []byte
	for i := 0; i < len(places); {
		if !places[i].Gap() {
			b = AppendEntryRef(b, places[i].Run, places[i].First)
			i++
			continue
		}
		from := i
		for i < len(places) && places[i].Gap() {
			i++
		}
		b = AppendEntryRef(b, "", uint64(i-from))
	}
	return b
}

// DecodeEntryRefs decodes a row of cursors. The entries are in the order of their cursors, which
// have no gaps between them.
func DecodeEntryRefs(value []byte) ([]EntryRef, error) {
	if err := checkFormat("cursor row", value, 1); err != nil {
		return nil, err
	}
	var places []EntryRef
	s := newScan("cursor row", value[1:])
	for s.next() {
		if s.num != 1 {
			s.unknown()
			break
		}
		p, err := readEntryRef(s.message())
		s.keep(err)
		if !p.Gap() {
			places = append(places, p)
			continue
		}
		if p.First == 0 || p.First > MostGaps-uint64(min(len(places), MostGaps)) {
			return nil, fmt.Errorf("%w: cursor row with a gap of %d behind %d places", ErrCorrupt, p.First, len(places))
		}
		places = append(places, make([]EntryRef, p.First)...)
	}
	if s.err == nil && len(places) == 0 {
		return nil, fmt.Errorf("%w: cursor row without places", ErrCorrupt)
	}
	return places, s.err
}

func readEntryRef(b []byte) (EntryRef, error) {
	var p EntryRef
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
