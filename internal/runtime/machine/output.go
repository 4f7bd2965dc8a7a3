package machine

// OutputPiece is a piece of the output of an open turn. Callers can read it before the turn is
// completed. It is a part of the artifact with the id ID.
type OutputPiece struct {
	// ID identifies the artifact among the artifacts of the run. It is required.
	ID string
	// Name and Description are for display.
	Name        string
	Description string
	Parts       []Part
	// Append adds the parts to the artifact. If it is false, the parts replace the contents of the
	// artifact. A repeated execution begins with a piece that replaces.
	Append bool
	// Last means that this execution adds no further piece to this artifact.
	Last bool
	// Metadata is a compact JSON object, or empty.
	Metadata []byte
}
