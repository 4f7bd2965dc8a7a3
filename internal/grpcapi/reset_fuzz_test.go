package grpcapi

import "testing"

// FuzzFrames: frames are found at the same places however the bytes arrive.
func FuzzFrames(f *testing.F) {
	f.Add(frame(frameHeaders, 1, 3), uint8(1))
	f.Add(append(frame(frameReset, 1, 4), 0, 0, 9), uint8(5))
	f.Fuzz(func(t *testing.T, wire []byte, step uint8) {
		type seen struct {
			kind   byte
			stream uint32
		}
		var expected, pieces []seen
		(&frames{}).scan(wire, func(kind byte, stream uint32) { expected = append(expected, seen{kind, stream}) })
		cut := &frames{}
		for rest := wire; len(rest) > 0; {
			n := min(int(step)%7+1, len(rest))
			cut.scan(rest[:n], func(kind byte, stream uint32) { pieces = append(pieces, seen{kind, stream}) })
			rest = rest[n:]
		}
		if len(expected) != len(pieces) {
			t.Fatalf("%d frames at once, %d in pieces", len(expected), len(pieces))
		}
		for i := range expected {
			if expected[i] != pieces[i] {
				t.Fatalf("frame %d: %v at once, %v in pieces", i, expected[i], pieces[i])
			}
		}
	})
}
