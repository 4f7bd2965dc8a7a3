package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// writeOutput stores a piece of output. The size of the piece counts against the bound of the run's
// messages.
func (t *txn) writeOutput(c *machine.WriteOutput) error {
	if err := First(t.checkOpen(), t.checkTurn(c.TurnSeq, c.Attempt), CheckPiece(&c.Piece)); err != nil {
		return err
	}
	size := PieceBytes(&c.Piece)
	if err := t.checkMessageBytes(size); err != nil {
		return err
	}
	t.assign(c.Assigned)
	t.clearBackoff()
	t.record(&machine.OutputWritten{TurnSeq: c.TurnSeq, Attempt: c.Attempt, Piece: c.Piece})
	t.s.MessageBytes += size
	return nil
}
