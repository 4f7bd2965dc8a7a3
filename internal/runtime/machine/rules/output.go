package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func pieceBytes(p *machine.OutputPiece) int64 {
	return partsBytes(p.Parts) + int64(len(p.ID)+len(p.Name)+len(p.Description)+len(p.Metadata))
}

// writeOutput keeps a piece of output. Like messages, pieces count against the
// bound of the run's messages.
func (t *txn) writeOutput(c *machine.WriteOutput) error {
	if err := first(t.checkOpen(), t.checkTurn(c.TurnSeq, c.Attempt), checkPiece(&c.Piece)); err != nil {
		return err
	}
	size := pieceBytes(&c.Piece)
	if err := t.checkMessageBytes(size); err != nil {
		return err
	}
	t.assign(c.Assigned)
	t.begun()
	t.record(&machine.OutputWritten{TurnSeq: c.TurnSeq, Attempt: c.Attempt, Piece: c.Piece})
	t.s.MessageBytes += size
	return nil
}

func checkPiece(p *machine.OutputPiece) error {
	if p.ID == "" {
		return &machine.Refusal{Code: machine.CodeInvalidArgument, Reason: "OUTPUT_ID_REQUIRED", Field: "piece.id", Message: "name the artifact that the parts belong to"}
	}
	if len(p.Parts) == 0 && !p.Last {
		return &machine.Refusal{Code: machine.CodeInvalidArgument, Reason: "NO_PARTS", Field: "piece.parts", Message: "a piece without parts must be the last one"}
	}
	return nil
}
