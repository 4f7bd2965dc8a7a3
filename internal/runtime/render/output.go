package render

// OutputChunk is a piece of the output of an active turn.
type OutputChunk struct {
	RunID    string
	Turn     uint64
	Attempt  int
	Delivery int
	// Offset is where Text begins in the delivery's output, in bytes.
	Offset int64
	Text   string
	// Behind is the newest record of the run when the piece arrived. Readers get the piece after
	// that record and before the next one.
	Behind uint64
	// Reasoning reports whether the text is reasoning of a model instead of output of the turn.
	Reasoning bool
	// Reset reports whether the reader must discard what it read: the piece is from another
	// delivery, or a part was missed.
	Reset bool
}

// OutputPosition is how much of a turn's output was read; the zero value is nothing read.
type OutputPosition struct {
	Turn     uint64
	Delivery int
	Offset   int64
}
