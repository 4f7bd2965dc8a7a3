package services

import (
	"crypto/rand"
	"encoding/base64"
	"io"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// SystemClock is the machine's clock.
type SystemClock struct{}

// born is the start of the process, by the monotonic clock.
var born = time.Now()

// Now returns the current time.
func (SystemClock) Now() time.Time { return time.Now() }

// Elapsed is the time since the process began.
func (SystemClock) Elapsed() time.Duration { return time.Since(born) }

// After delivers once when d has passed.
func (SystemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// SystemIDs makes ULIDs that sort by time and tokens of 128 random bits. Safe
// for concurrent use.
type SystemIDs struct {
	mu      sync.Mutex
	entropy io.Reader
}

// NewSystemIDs makes ids from the operating system's random source.
func NewSystemIDs() *SystemIDs {
	return &SystemIDs{entropy: ulid.Monotonic(rand.Reader, 0)}
}

// RunID returns a ULID; two of one millisecond sort in the order of the calls.
func (s *SystemIDs) RunID(at time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := ulid.New(ulid.Timestamp(at), s.entropy)
	if err != nil {
		// The random tail of this millisecond ran over; a fresh one does not.
		id = ulid.MustNew(ulid.Timestamp(at), rand.Reader)
	}
	return id.String()
}

// Token returns 22 characters of base64url.
func (s *SystemIDs) Token() string {
	var word [16]byte
	_, _ = rand.Read(word[:])
	return base64.RawURLEncoding.EncodeToString(word[:])
}
