package grpcapi

import (
	"testing"

	"buf.build/go/protovalidate"
)

// TestConstraintsCompile: the constraints of every request are good, although the
// server compiles them at the first request only.
func TestConstraintsCompile(t *testing.T) {
	t.Parallel()
	if _, err := protovalidate.New(protovalidate.WithDisableLazy(), protovalidate.WithMessageDescriptors(requestTypes()...)); err != nil {
		t.Fatal(err)
	}
}
