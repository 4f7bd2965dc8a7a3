package gateway

import (
	"io"
	"net/http"
	"time"
)

// bodyTime is how long a client may take to send the body of a request. pieceTime is how long it may
// take to read one piece of an answer.
const (
	bodyTime  = 2 * time.Minute
	pieceTime = 2 * time.Minute
)

// NewServer returns an HTTP server that closes the connections of clients that are too slow. headers
// limits the size of a request's headers, in bytes. The server also speaks HTTP/2 without TLS, so that
// a [Signpost] can answer gRPC clients.
func NewServer(handler http.Handler, headers int) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Protocols: &protocols,
		Handler:   paced(handler, bodyTime, pieceTime), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: headers,
		HTTP2: &http.HTTP2Config{SendPingTimeout: time.Minute, PingTimeout: 15 * time.Second, WriteByteTimeout: pieceTime},
	}
}

// paced closes the connections of clients that send or read too slowly. body limits the time from the first read of a
// request's body to its end. piece limits the time to read one piece of an answer. The fields ReadTimeout and
// WriteTimeout of net/http are not used, because these times begin with the request and would end every stream.
func paced(next http.Handler, body, piece time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &pacedBody{ReadCloser: r.Body, control: control, whole: body}
		}
		next.ServeHTTP(&pacedWriter{ResponseWriter: w, control: control, piece: piece}, r)
	})
}

// pacedBody is a body that must arrive completely within a time after its first read.
type pacedBody struct {
	io.ReadCloser
	control *http.ResponseController
	whole   time.Duration
	started bool
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if !b.started {
		b.started = true
		_ = b.control.SetReadDeadline(time.Now().Add(b.whole))
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		// The deadline is removed because net/http continues to read the connection, in order to notice
		// when the client disconnects.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// pacedWriter ends the connection of a client that does not read a piece in time.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	piece   time.Duration
}

func (w *pacedWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.piece))
	return w.ResponseWriter.Write(p)
}

// FlushError implements the interface that [http.ResponseController] uses.
func (w *pacedWriter) FlushError() error {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.piece))
	return w.control.Flush()
}

// Flush implements http.Flusher, which some libraries need.
func (w *pacedWriter) Flush() { _ = w.FlushError() }

// Unwrap lets a [http.ResponseController] find the connection.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
