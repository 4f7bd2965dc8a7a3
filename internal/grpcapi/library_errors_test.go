package grpcapi

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/services"
)

// TestWhatTheLibraryAnswersAlone: gRPC has no hook for a message of more than twice the limit, nor
// for a compression that it does not have. docs/reference/errors.md says that these have no details.
func TestWhatTheLibraryAnswersAlone(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	r, ctx := newRig(t, func(c *Config, _ *services.Config) { c.Listen, c.MaxMessageBytes = "127.0.0.1:0", limit }), testContext(t)
	conn, err := grpc.NewClient(r.server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	huge := &pawlv1.GetRunRequest{RunId: strings.Repeat("x", 2*limit+1)}
	st := status.Convert(conn.Invoke(ctx, pawlv1.RunService_GetRun_FullMethodName, huge, &emptypb.Empty{}))
	if st.Code() != codes.ResourceExhausted || len(st.Details()) != 0 {
		t.Errorf("a huge message: %v with %v", st, st.Details())
	}

	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	defer client.CloseIdleConnections()
	frame := bytes.NewReader([]byte{1, 0, 0, 0, 1, 0}) // compressed, of one byte
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.server.Addr()+pawlv1.RunService_GetRun_FullMethodName, frame)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/grpc", "Te": "trailers", "Grpc-Encoding": "foo"} {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := new(bytes.Buffer).ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	headerValue := func(name string) string { return resp.Header.Get(name) + resp.Trailer.Get(name) }
	if headerValue("Grpc-Status") != strconv.Itoa(int(codes.Unimplemented)) || headerValue("Grpc-Status-Details-Bin") != "" {
		t.Errorf("status %q, details %q: %v %v", headerValue("Grpc-Status"), headerValue("Grpc-Status-Details-Bin"), resp.Header, resp.Trailer)
	}
}
