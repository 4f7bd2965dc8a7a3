package encoded

import "bufio"

// Pieces returns a writer that calls send with pieces of at most `most` bytes. Flush sends the last
// piece.
func Pieces(most int, send func(piece []byte) error) *bufio.Writer {
	return bufio.NewWriterSize(&pieces{most: most, send: send}, most)
}

type pieces struct {
	most int
	send func([]byte) error
}

// Write implements io.Writer.
func (p *pieces) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		piece := b[written:min(len(b), written+p.most)]
		if err := p.send(piece); err != nil {
			return written, err
		}
		written += len(piece)
	}
	return written, nil
}
