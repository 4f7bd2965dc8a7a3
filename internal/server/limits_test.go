package server

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi"
)

// TestLimitsHaveOneDefault: what the server takes where nothing is set is what the
// command line does.
func TestLimitsHaveOneDefault(t *testing.T) {
	t.Parallel()
	limits := config.Default().Limits
	if limits.Streams != grpcapi.DefaultStreams || limits.MessageBytes != grpcapi.DefaultMessageBytes {
		t.Errorf("serve has %d streams and messages of %s, the server %d and %d",
			limits.Streams, limits.MessageBytes, grpcapi.DefaultStreams, grpcapi.DefaultMessageBytes)
	}
}
