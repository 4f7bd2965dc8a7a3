package godriver

import (
	"context"

	"google.golang.org/grpc/credentials"
)

// bearer is a token that goes with each call; empty: none.
type bearer string

var _ credentials.PerRPCCredentials = bearer("")

// GetRequestMetadata is the header.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if b == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity returns false, because the sidecar under test is on this machine.
func (bearer) RequireTransportSecurity() bool { return false }
