package machine

// OutputPiece is a piece of the output of an open turn, visible before the turn is completed: a part of the
// artifact ID.
type OutputPiece struct {
	// ID identifies the artifact among those of the run; required.
	ID string
	// Name and Description are for people.
	Name        string
	Description string
	Parts       []Part
	// Append adds the parts to the artifact; otherwise they replace its contents. A repeated execution begins
	// with a replacement.
	Append bool
	// Last means that this execution adds no more to this artifact.
	Last bool
	// Metadata is a compact JSON object or empty.
	Metadata []byte
}
