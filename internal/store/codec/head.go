package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These are the parts of a head's value, in this order: version byte, seq, state. The seq has a fixed
// position, because the committer compares it without decoding the rest.
const stateAt = 1 + 8

// EncodeHead returns the value of a run's head or of a checkpoint. The value contains hash as the end
// of the run's chain, instead of st.PrevHash.
func EncodeHead(st *machine.State, hash [32]byte) []byte {
	b := make([]byte, stateAt, stateAt+1024)
	b[0] = Format
	binary.BigEndian.PutUint64(b[1:], st.Seq)
	head := *st
	head.PrevHash = hash
	return appendState(b, &head)
}

// HeadSeq returns the last seq of a head without decoding the state.
func HeadSeq(value []byte) (uint64, error) {
	if _, ok := Sealed(value); !ok || len(value) < stateAt {
		if err := checkFormat("head", value, stateAt); err != nil {
			return 0, err
		}
	}
	return binary.BigEndian.Uint64(value[1:]), nil
}

// currentNum is the number of the field of State that contains the name of the current workflow state.
const currentNum = 21

// HeadCurrent returns the name of the current workflow state of a head, without decoding the rest. The
// result is a part of value. Lists use this function because they examine many heads and return few.
func HeadCurrent(value []byte) ([]byte, error) {
	value, err := leftOf("head", value, stateAt)
	if err != nil {
		return nil, err
	}
	if err := checkFormat("head", value, stateAt); err != nil {
		return nil, err
	}
	s := newScan("state", value[stateAt:])
	for s.next() && s.num <= currentNum {
		if s.num == currentNum {
			return s.message(), s.err
		}
	}
	return nil, s.err
}

// DecodeHead decodes a head or a checkpoint. The state shares no memory with value.
func DecodeHead(value []byte) (*machine.State, error) {
	if err := checkFormat("head", value, stateAt); err != nil {
		return nil, err
	}
	seq, err := HeadSeq(value)
	if err != nil {
		return nil, err
	}
	st := &machine.State{}
	if err := readState(value[stateAt:], st); err != nil { //nolint:gosec // checkFormat has seen as many bytes
		return nil, err
	}
	if st.Seq != seq {
		return nil, fmt.Errorf("%w: head of seq %d holds a state of seq %d", ErrCorrupt, seq, st.Seq)
	}
	return st, nil
}
