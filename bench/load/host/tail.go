package host

import (
	"bytes"
	"sync"
)

// Tail keeps the last bytes of a process's error output, for the error message. Safe for
// concurrent use.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 4096

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = t.buf[over:]
	}
	return len(p), nil
}

// String is what was written last, at most 4096 bytes, without space around it.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
