package grpcapi

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"
)

// frame is the header of a frame with a payload.
func frame(kind byte, stream uint32, payload int) []byte {
	head := []byte{byte(payload >> 16), byte(payload >> 8), byte(payload), kind, 0}
	return append(binary.BigEndian.AppendUint32(head, stream), make([]byte, payload)...)
}

// TestFramesAreWalked in pieces of every size.
func TestFramesAreWalked(t *testing.T) {
	t.Parallel()
	wire := append([]byte(strings.Repeat("p", prefaceBytes)), frame(frameHeaders, 1, 300)...)
	wire = append(wire, frame(frameReset, 1, 4)...)
	wire = append(wire, frame(0, 3, 70_000)...)
	wire = append(wire, frame(frameHeaders, 1<<31|5, 0)...)
	for _, size := range []int{1, 2, 8, 9, 10, 1000, len(wire)} {
		f := frames{skip: prefaceBytes}
		var got []uint32
		for rest := wire; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			f.scan(rest[:min(size, len(rest))], func(kind byte, stream uint32) { got = append(got, uint32(kind), stream) })
		}
		want := []uint32{frameHeaders, 1, frameReset, 1, 0, 3, frameHeaders, 5}
		if len(got) != len(want) || !f.isComplete() {
			t.Fatalf("pieces of %d: %v", size, got)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("pieces of %d: %v, want %v", size, got, want)
			}
		}
	}
}

// TestWhatIsNoRapidReset: any number of streams that lived may be cancelled at once,
// and young ones at the rate of a client that cancels calls.
func TestWhatIsNoRapidReset(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	fresh := func() *limitedConn {
		c := newConn(nil)
		c.now = func() time.Time { return now }
		return c
	}
	watcher := fresh()
	for id := range uint32(20_000) {
		watcher.count(frameHeaders, 2*id+1)
	}
	for range 2 {
		now = now.Add(youngFor)
		watcher.count(frameHeaders, 1<<20)
	}
	for id := range uint32(20_000) {
		watcher.count(frameReset, 2*id+1)
	}
	if watcher.isExceeded() {
		t.Error("20000 watchers that end are taken for an attack")
	}
	caller := fresh()
	for id := range uint32(5 * youngResets) {
		now = now.Add(time.Second / youngResets)
		caller.count(frameHeaders, 2*id+1)
		caller.count(frameReset, 2*id+1)
	}
	if caller.isExceeded() {
		t.Error("a client that cancels calls is taken for an attack")
	}
	for id := range uint32(2 * youngResetsBurst) {
		caller.count(frameHeaders, 1<<20+2*id+1)
		caller.count(frameReset, 1<<20+2*id+1)
	}
	if !caller.isExceeded() {
		t.Error("an attack is not noticed")
	}
}
