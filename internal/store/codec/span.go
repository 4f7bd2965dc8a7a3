package codec

import "fmt"

// EntrySpan returns the first seq of an entry and the number of its records, without decoding the
// records.
func EntrySpan(value []byte) (first uint64, records int, err error) {
	if value, err = leftOf("entry", value, entryAt); err != nil {
		return 0, 0, err
	}
	if err := checkFormat("entry", value, entryAt); err != nil {
		return 0, 0, err
	}
	s := newScan("entry", value[entryAt:])
	for s.next() {
		switch s.num {
		case 1:
			first = s.uint()
		case 3:
			records++
		}
	}
	if s.err == nil && (first == 0 || records == 0) {
		s.err = fmt.Errorf("%w: entry without records", ErrCorrupt)
	}
	return first, records, s.err
}

// EntryHash returns the hash of the chain after an entry. The caller must have checked the version
// byte.
func EntryHash(value []byte) (hash [32]byte) {
	copy(hash[:], value[min(hashAt, len(value)):])
	return hash
}
