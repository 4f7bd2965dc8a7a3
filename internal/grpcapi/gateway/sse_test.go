package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// metadataConn keeps the metadata of the last call, which fails.
type metadataConn struct{ md metadata.MD }

func (c *metadataConn) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	c.md, _ = metadata.FromOutgoingContext(ctx)
	return status.Error(codes.Unavailable, "no server")
}

func (c *metadataConn) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, c.Invoke(ctx, method, nil, nil)
}

// TestEventStreamHasTheMetadataOfOtherCalls: the server receives the address, the token and the trace context of a
// client that reads server-sent events, as it does for each other path.
func TestEventStreamHasTheMetadataOfOtherCalls(t *testing.T) {
	t.Parallel()
	conn := &metadataConn{}
	handler, err := New(conn, Config{Hosts: []string{"example.com"}, MaxBody: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) metadata.MD {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		r.RemoteAddr = "192.0.2.7:1234"
		r.Header.Set("Authorization", "Bearer t")
		r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		r.Header.Set("Accept", "text/event-stream")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return conn.md
	}
	want, got := get("/v1/runs"), get("/v1/transitions:stream")
	if len(want) == 0 || len(want) != len(got) {
		t.Errorf("metadata %v, want %v", got, want)
	}
	for key, values := range want {
		if !slices.Equal(got[key], values) {
			t.Errorf("%s is %v, want %v", key, got[key], values)
		}
	}
}
