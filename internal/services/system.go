package services

import (
	"crypto/rand"
	"encoding/base64"
	"io"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// SystemClock is the clock of the machine.
type SystemClock struct{}

// born is the time at which the process started, with the monotonic clock.
var born = time.Now()

// Now returns the current time.
func (SystemClock) Now() time.Time { return time.Now() }

// Elapsed returns the time since the process started.
func (SystemClock) Elapsed() time.Duration { return time.Since(born) }

// After returns a channel that delivers one value when d has passed.
func (SystemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// SystemIDs makes ULIDs, which sort by time, and tokens of 128 random bits. Safe for concurrent use.
type SystemIDs struct {
	mu      sync.Mutex
	entropy io.Reader
}

// NewSystemIDs returns SystemIDs that use the random source of the operating system.
func NewSystemIDs() *SystemIDs {
	return &SystemIDs{entropy: ulid.Monotonic(rand.Reader, 0)}
}

// RunID returns a ULID. Two ULIDs of the same millisecond sort in the order of the calls.
func (s *SystemIDs) RunID(at time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := ulid.New(ulid.Timestamp(at), s.entropy)
	if err != nil {
		// The random part for this millisecond has overflowed. A new random part has not.
		id = ulid.MustNew(ulid.Timestamp(at), rand.Reader)
	}
	return id.String()
}

// Token returns a random token of 22 characters in base64url.
func (s *SystemIDs) Token() string {
	var word [16]byte
	_, _ = rand.Read(word[:])
	return base64.RawURLEncoding.EncodeToString(word[:])
}
