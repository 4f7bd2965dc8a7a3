package transport

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestANumberThatNoNodeSends is refused by the name of its key, and is no other one.
func TestANumberThatNoNodeSends(t *testing.T) {
	t.Parallel()
	for name, said := range map[string][]string{
		"none": nil, "empty": {""}, "two": {"1", "1"}, "negative": {"-1"}, "too many": {"64"}, "no bound": {"99999999999999999999"},
		"a sign": {"+1"}, "a space": {"1 "}, "hexadecimal": {"0x1"}, "a list": {"1,2"}, "a word": {"first"},
	} {
		md := metadata.MD{callerKey: {"{}"}}
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set(callerHeader, "e30=")
		for _, number := range said {
			md.Append(partKey, number)
			r.Header.Add(partHeader, number)
		}
		_, _, err := incoming(metadata.NewIncomingContext(context.Background(), md))
		badCallAt(t, name, partKey, err)
		_, _, err = incomingHTTP(r)
		badCallAt(t, name+" over HTTP", partHeader, err)
	}
	md := metadata.MD{callerKey: {"{}"}, partKey: {"63"}}
	if _, part, err := incoming(metadata.NewIncomingContext(context.Background(), md)); part != 63 || err != nil {
		t.Errorf("the last one is %d, %v", part, err)
	}
}

func badCallAt(t *testing.T, name, key string, err error) {
	t.Helper()
	refusal, ok := errors.AsType[*machine.Error](err)
	if !ok || refusal.Reason != "BAD_PEER_CALL" || refusal.Field != key || len(refusal.Allowed) != 1 || refusal.Allowed[0] != "0 to 63" {
		t.Errorf("%s: %#v", name, err)
	}
}
