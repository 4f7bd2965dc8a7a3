package gateway

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Signpost answers gRPC calls that were sent to an HTTP port by mistake. The answer contains the
// address of the gRPC port.
type Signpost struct {
	// Port is the name of the port, for example "HTTP".
	Port string
	// GRPC returns HOST:PORT of the gRPC port. It returns "" if gRPC is served only on Socket.
	GRPC   func() string
	Socket string
	Next   http.Handler
}

// ServeHTTP answers gRPC calls and passes other requests to the next handler. It accepts HTTP/2 without
// TLS only from gRPC clients.
func (s *Signpost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
		s.point(w, r)
	case r.ProtoMajor > 1 && r.TLS == nil:
		http.Error(w, "without TLS this port takes HTTP/1.1", http.StatusHTTPVersionNotSupported)
	default:
		s.Next.ServeHTTP(w, r)
	}
}

// point answers a gRPC call with an error status that contains the address of the gRPC port. The answer has the form
// of a gRPC server that returns only a status.
func (s *Signpost) point(w http.ResponseWriter, r *http.Request) {
	place := s.place(r.Host)
	st := apierror.Refused(&machine.Error{
		Code: machine.CodeInvalidArgument, Reason: "HTTP_PORT",
		Message: fmt.Sprintf("%s is the %s port of the sidecar; gRPC is at %s", apierror.Clip(r.Host, apierror.MaxFieldBytes), s.Port, place),
	})
	details, _ := proto.Marshal(st.Proto())
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(int(st.Code())))
	h.Set("Grpc-Message", grpcMessage(st))
	h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
	w.WriteHeader(http.StatusOK)
}

// place returns the address of the gRPC port under which the caller can reach it. If the port is bound
// to all addresses of the host, the result contains the host name of the request.
func (s *Signpost) place(asked string) string {
	bound := s.GRPC()
	if bound == "" {
		return "unix:" + s.Socket
	}
	host, port, err := net.SplitHostPort(bound)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return bound
	}
	return net.JoinHostPort(hostOf(asked), port)
}

// grpcMessage returns the text of a status in the form of the header grpc-message. Bytes that are not
// printable ASCII are percent-encoded.
func grpcMessage(st *status.Status) string {
	var out strings.Builder
	for _, b := range []byte(st.Message()) {
		if b < ' ' || b > '~' || b == '%' {
			fmt.Fprintf(&out, "%%%02X", b)
		} else {
			out.WriteByte(b)
		}
	}
	return out.String()
}
