package machine

// OutputPiece is a piece of the output of an open turn, which is shown before
// the turn is completed: a part of the artifact ID.
type OutputPiece struct {
	// ID names the artifact among those of the run; required.
	ID string
	// Name and Description are for people.
	Name        string
	Description string
	Parts       []Part
	// Append adds the parts to what the artifact has; else they replace it. An
	// execution that is repeated begins with a replacement.
	Append bool
	// Last: nothing more comes for this artifact from this execution.
	Last bool
	// Metadata is a compact JSON object or empty.
	Metadata []byte
}
