package runtime

// Live is what is under way and no record: it lives in the memory of this process, and
// those who watch a run are told of it.
type Live interface {
	// Output is the next piece of the output of a run's turn behind a position; false:
	// there is none yet.
	Output(key RunKey, after OutputPosition) (OutputChunk, bool)
	// Handed is the turn of a run that was handed out and is not known to be over; 0 =
	// none.
	Handed(key RunKey) uint64
}

// OutputChunk is a piece of the output of a turn that is under way.
type OutputChunk struct {
	RunID    string
	Turn     uint64
	Attempt  int
	Delivery int
	// Offset is where Text begins in the delivery's output, bytes.
	Offset int64
	Text   string
	// Reset: what was read of an earlier delivery is void, or a part was missed.
	Reset bool
}

// OutputPosition is how much of a turn's output was read; the zero value is
// nothing.
type OutputPosition struct {
	Turn     uint64
	Delivery int
	Offset   int64
}
