package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	gw "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These are the paths of StreamTransitions, as its proto file declares them.
const (
	allStreamPath = "/v1/transitions:stream"
	runStreamPath = "/v1/runs/{run_id}/transitions:stream"
)

// endID is the id of the event "end". A browser's EventSource reconnects after every stream. If it then
// sends this id, the answer is 204. After this answer the EventSource does not reconnect again (HTML
// standard, section 9.2.3).
const endID = "end"

// eventStream serves StreamTransitions as server-sent events to clients that accept text/event-stream.
// Other clients get newline-delimited JSON from the library.
//
// Records are sent as plain messages, heartbeats as the event "heartbeat", pieces of output as the event "output"
// (without id), the end of the stream as the event "end", and an error as the event "fault" with a google.rpc.Status.
// `id:` is the cursor. A browser that reconnects sends it as Last-Event-ID, so it misses no record. The id of the event
// "end" is [endID].
type eventStream struct {
	runs  pawlv1.RunServiceClient
	other *gw.ServeMux
}

// ServeHTTP serves server-sent events if the client accepts them. Otherwise it calls the next handler.
func (e *eventStream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !wantsEvents(r) {
		e.other.ServeHTTP(w, r)
		return
	}
	if r.Header.Get("Last-Event-ID") == endID {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	req, err := streamRequest(r)
	if err != nil {
		st, _ := apierror.Status(err)
		WriteStatus(w, st, HTTPStatus(st))
		return
	}
	// The call has the same metadata as a call of any other path.
	ctx, err := gw.AnnotateContext(r.Context(), e.other, r, pawlv1.RunService_StreamTransitions_FullMethodName)
	if err != nil {
		gatewayError(r.Context(), e.other, nil, w, r, err)
		return
	}
	e.serve(ctx, w, req)
}

// serve waits until the server has accepted the stream, so that an earlier error can be an ordinary
// HTTP answer. Then it writes each item as an event.
func (e *eventStream) serve(ctx context.Context, w http.ResponseWriter, req *pawlv1.StreamTransitionsRequest) {
	stream, err := e.runs.StreamTransitions(ctx, req)
	if err == nil {
		var admitted metadata.MD
		if admitted, err = stream.Header(); err == nil && admitted == nil {
			// A stream without headers has already failed, and Recv returns its error.
			_, err = stream.Recv()
		}
	}
	if err != nil {
		st := status.Convert(err)
		WriteStatus(w, st, HTTPStatus(st))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	flusher := http.NewResponseController(w)
	for {
		if flusher.Flush() != nil {
			return
		}
		item, err := stream.Recv()
		if writeEvent(w, item, err) != nil || err != nil {
			return
		}
	}
}

// writeEvent writes one item of the stream as an event. If ended is set, it writes the end or the error
// of the stream.
func writeEvent(w io.Writer, item *pawlv1.StreamTransitionsResponse, ended error) error {
	if errors.Is(ended, io.EOF) {
		_, err := io.WriteString(w, "id: "+endID+"\nevent: end\ndata: {}\n\n")
		return err
	}
	if ended != nil {
		data, err := protojson.Marshal(status.Convert(ended).Proto())
		if err == nil {
			_, err = fmt.Fprintf(w, "event: fault\ndata: %s\n\n", data)
		}
		return err
	}
	data, err := protojson.Marshal(item)
	if err != nil {
		return err
	}
	head := "id: " + item.GetRecord().GetCursor()
	switch {
	case item.GetHeartbeat() != nil:
		head = "id: " + item.GetHeartbeat().GetCursor() + "\nevent: heartbeat"
	case item.GetOutput() != nil:
		// The event has no id, because a stream cannot be resumed at a piece of output.
		head = "event: output"
	}
	_, err = fmt.Fprintf(w, "%s\ndata: %s\n\n", head, data)
	return err
}

func wantsEvents(r *http.Request) bool {
	for accept := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		if kind, _, err := mime.ParseMediaType(accept); err == nil && kind == "text/event-stream" {
			return true
		}
	}
	return false
}

// streamRequest reads the request from the query. If the header Last-Event-ID is set, it replaces the
// position in the query.
func streamRequest(r *http.Request) (*pawlv1.StreamTransitionsRequest, error) {
	req := &pawlv1.StreamTransitionsRequest{}
	if err := gw.PopulateQueryParameters(req, r.URL.Query(), utilities.NewDoubleArray(nil)); err != nil {
		return nil, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "MALFORMED_MESSAGE", Field: "(query)", Message: err.Error(),
		}
	}
	if id := r.PathValue("run_id"); id != "" {
		req.RunId = id
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		req.AfterCursor, req.AfterSeq = last, 0
	}
	return req, nil
}
