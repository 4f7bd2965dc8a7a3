package render

// OutputChunk is a piece of the output of an active turn.
type OutputChunk struct {
	RunID    string
	Turn     uint64
	Attempt  int
	Delivery int
	// Offset is the position in the delivery's output at which Text begins, in bytes.
	Offset int64
	Text   string
	// Behind is the newest record of the run at the time when the piece arrived. Readers receive the
	// piece after that record and before the next record.
	Behind uint64
	// Reasoning reports whether the text is reasoning of a model instead of output of the turn.
	Reasoning bool
	// Reset reports whether the reader must discard the output that it has read, because the piece is
	// from another delivery or because a part was missed.
	Reset bool
}

// OutputPosition is the position up to which a turn's output was read. The zero value means that no
// output was read.
type OutputPosition struct {
	Turn     uint64
	Delivery int
	Offset   int64
}
