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

func pieceBytes(p *OutputPiece) int64 {
	return partsBytes(p.Parts) + int64(len(p.ID)+len(p.Name)+len(p.Description)+len(p.Metadata))
}

// writeOutput keeps a piece of output. Like messages, pieces count against the
// bound of the run's messages.
func (t *txn) writeOutput(c *WriteOutput) error {
	if err := first(t.checkOpen(), t.checkTurn(c.TurnSeq, c.Attempt), checkPiece(&c.Piece)); err != nil {
		return err
	}
	size := pieceBytes(&c.Piece)
	if err := t.checkMessageBytes(size); err != nil {
		return err
	}
	t.assign(c.Assigned)
	t.begun()
	t.record(&OutputWritten{TurnSeq: c.TurnSeq, Attempt: c.Attempt, Piece: c.Piece})
	t.s.MessageBytes += size
	return nil
}

func checkPiece(p *OutputPiece) error {
	if p.ID == "" {
		return &Refusal{Code: CodeInvalidArgument, Reason: "OUTPUT_ID_REQUIRED", Field: "piece.id", Message: "name the artifact that the parts belong to"}
	}
	if len(p.Parts) == 0 && !p.Last {
		return &Refusal{Code: CodeInvalidArgument, Reason: "NO_PARTS", Field: "piece.parts", Message: "a piece without parts must be the last one"}
	}
	return nil
}
