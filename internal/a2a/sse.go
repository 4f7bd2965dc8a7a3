package a2a

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"
)

// writeLimit is the longest time that a write waits for a client that does not read.
const writeLimit = time.Minute

// events writes a stream as server-sent events. The HTTP header is sent with the first item, so that
// an error before the first item is an ordinary HTTP answer.
type events struct {
	w          http.ResponseWriter
	frame      func([]byte) []byte
	headerSent bool
}

// send implements [sendFunc]. It writes the id of the item as the event's `id:` field. A client that
// reconnects sends this id in the header Last-Event-ID. An item without a response becomes a comment
// that keeps the connection alive. Before the HTTP header was sent, it is dropped.
func (e *events) send(it item) error {
	if it.StreamResponse == nil {
		if !e.headerSent {
			return nil
		}
		return e.write([]byte(": still here\n\n"))
	}
	data, err := marshal(it.StreamResponse)
	if err != nil {
		return err
	}
	e.begin()
	var b bytes.Buffer
	if it.id != 0 {
		b.WriteString("id: " + strconv.FormatUint(it.id, 10) + "\n")
	}
	b.WriteString("data: ")
	b.Write(e.frame(data))
	b.WriteString("\n\n")
	return e.write(b.Bytes())
}

func (e *events) begin() {
	if e.headerSent {
		return
	}
	e.headerSent = true
	h := e.w.Header()
	h.Set("Content-Type", mediaEvents)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(http.StatusOK)
}

// fault ends a stream that has begun with an event "error".
func (e *events) fault(body []byte) {
	_ = e.write([]byte("event: error\ndata: " + string(body) + "\n\n"))
}

func (e *events) write(b []byte) error {
	control := http.NewResponseController(e.w)
	// The error is ignored, because a server that does not support write deadlines can still write.
	_ = control.SetWriteDeadline(time.Now().Add(writeLimit))
	//nolint:gosec,nolintlint // events, said to be events: no browser takes them for a page. Found only where callers are read too.
	if _, err := e.w.Write(b); err != nil {
		return err
	}
	return control.Flush()
}

// writeActivatedExtensions writes a header with the A2A extensions that are active for the call.
func writeActivatedExtensions(ctx context.Context, w http.ResponseWriter) {
	c := callOf(ctx)
	if uris := c.activatedExtensions(); uris != "" {
		w.Header().Set(extensionsHeader, uris)
	}
}
