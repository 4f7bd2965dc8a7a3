package a2a

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"
)

// writeLimit bounds one write to a reader that does not read.
const writeLimit = time.Minute

// events writes a stream as server-sent events. It begins with the first item, so
// that an error before it is an ordinary answer.
type events struct {
	w          http.ResponseWriter
	frame      func([]byte) []byte
	headerSent bool
}

// send is a [sendFunc]. `id:` is the generation, to be sent back as Last-Event-ID.
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

// fault ends a stream that had begun with an error.
func (e *events) fault(body []byte) {
	_ = e.write([]byte("event: error\ndata: " + string(body) + "\n\n"))
}

func (e *events) write(b []byte) error {
	control := http.NewResponseController(e.w)
	// A server without deadlines writes without one.
	_ = control.SetWriteDeadline(time.Now().Add(writeLimit))
	//nolint:gosec,nolintlint // events, said to be events: no browser takes them for a page. Found only where callers are read too.
	if _, err := e.w.Write(b); err != nil {
		return err
	}
	return control.Flush()
}

// writeActivatedExtensions names the extensions that are in force.
func writeActivatedExtensions(ctx context.Context, w http.ResponseWriter) {
	c := callOf(ctx)
	if uris := c.activated(); uris != "" {
		w.Header().Set(extensionsHeader, uris)
	}
}
