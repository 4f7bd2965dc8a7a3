package grpcapi

import (
	"testing"

	"buf.build/go/protovalidate"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
)

// TestConstraintsCompile: the constraints of every request are good, although the
// server compiles them at the first request only.
func TestConstraintsCompile(t *testing.T) {
	t.Parallel()
	if _, err := protovalidate.New(protovalidate.WithDisableLazy(), protovalidate.WithMessageDescriptors(apierror.Requests()...)); err != nil {
		t.Fatal(err)
	}
}
