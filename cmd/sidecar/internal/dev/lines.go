package dev

import (
	"bytes"
	"io"
	"sync"
)

// lines is a writer that writes whole lines with a prefix. Several writers share one output and its mutex, so that lines of the sidecar
// and of the app are not mixed.
type lines struct {
	mu     *sync.Mutex
	out    io.Writer
	prefix string
	rest   []byte
}

// Write implements io.Writer. It keeps the beginning of a line until the rest of the line is written.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		if _, err := io.WriteString(l.out, l.prefix+string(line)+"\n"); err != nil {
			return 0, err
		}
		l.rest = rest
	}
}
