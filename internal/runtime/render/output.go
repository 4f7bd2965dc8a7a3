package render

// OutputChunk is a piece of the output of a turn that is under way.
type OutputChunk struct {
	RunID    string
	Turn     uint64
	Attempt  int
	Delivery int
	// Offset is where Text begins in the delivery's output, bytes.
	Offset int64
	Text   string
	// Behind is the run's newest record when the piece came: it is told behind that one and
	// before any other.
	Behind uint64
	// Reasoning: it is what a model thinks, not what the turn says.
	Reasoning bool
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
