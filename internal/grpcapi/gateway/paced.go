package gateway

import (
	"io"
	"net/http"
	"time"
)

// How long a client may take that does not want to be served: for the body of a request,
// and to take one piece of an answer.
const (
	bodyTime  = 2 * time.Minute
	pieceTime = 2 * time.Minute
)

// NewServer makes an HTTP server that closes connections of clients that are too slow. headers
// limits the bytes of a request's headers. It also speaks HTTP/2 without TLS, for the gRPC
// clients that a [Signpost] answers.
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

// paced serves clients that send and take at some pace. The library's own timeouts count
// from the beginning of a request and would end every stream. body bounds how long the
// body of a request takes from its first read, piece how long one piece of an answer does.
func paced(next http.Handler, body, piece time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &pacedBody{ReadCloser: r.Body, control: control, whole: body}
		}
		next.ServeHTTP(&pacedWriter{ResponseWriter: w, control: control, piece: piece}, r)
	})
}

// pacedBody has to be there as a whole within a time of its first read.
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
		// The connection is read on meanwhile, to see whether the client is still there.
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

// FlushError is what Flush of a [http.ResponseController] calls.
func (w *pacedWriter) FlushError() error {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.piece))
	return w.control.Flush()
}

// Flush is for libraries that ask for an http.Flusher.
func (w *pacedWriter) Flush() { _ = w.FlushError() }

// Unwrap leads a [http.ResponseController] to the connection.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
