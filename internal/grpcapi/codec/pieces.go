package codec

import "bufio"

// NewChunkWriter returns a writer that calls send with pieces of at most `most` bytes. Flush sends the last
// piece.
func NewChunkWriter(most int, send func(piece []byte) error) *bufio.Writer {
	return bufio.NewWriterSize(&chunkSender{maxBytes: most, send: send}, most)
}

type chunkSender struct {
	maxBytes int
	send     func([]byte) error
}

// Write implements io.Writer.
func (p *chunkSender) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		piece := b[written:min(len(b), written+p.maxBytes)]
		if err := p.send(piece); err != nil {
			return written, err
		}
		written += len(piece)
	}
	return written, nil
}
