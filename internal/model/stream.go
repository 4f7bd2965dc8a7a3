package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/tidwall/gjson"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// maxFaultBytes bounds the bytes that are read of an error response.
const maxFaultBytes = 1 << 20

// eventStream reads the events of an answer, one after the other.
type eventStream struct {
	events ssestream.Decoder
	// at is the current event, as JSON.
	at gjson.Result
	// ended reports whether the endpoint has sent the end of the stream.
	ended bool
	err   error
}

// ask sends a request to a path of the endpoint. The caller must close the stream.
func (e *Endpoint) ask(ctx context.Context, req *Request, path string, header http.Header, body []byte) (*eventStream, error) {
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	call.Header = header
	call.Header.Set("Content-Type", "application/json")
	call.Header.Set("Accept", "text/event-stream, application/json")
	call.Header.Set("User-Agent", "pawl")
	res, err := e.client(req).Do(call)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 400 {
		return nil, errors.Join(e.refusedBy(res), res.Body.Close())
	}
	return &eventStream{events: ssestream.NewDecoder(res)}, nil
}

// refusedBy returns the failure for a response in which an endpoint refuses a request.
func (e *Endpoint) refusedBy(res *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxFaultBytes)) // a partial text is better than none
	return e.statusFailure(res.StatusCode, res.Header, faultWords(body))
}

// next reads the next event. It returns false at the end of the stream, or after an error, which is in err.
func (s *eventStream) next() bool {
	for s.err == nil && s.events.Next() {
		data := bytes.TrimSpace(s.events.Event().Data)
		switch {
		case len(data) == 0:
		case bytes.HasPrefix(data, []byte("[DONE]")):
			s.ended = true
			return false
		default:
			// CheckLenient also bounds the depth. It refuses duplicate members, because gjson would use
			// the first one.
			if err := strictjson.CheckLenient(data); err != nil {
				s.err = fmt.Errorf("an event of the stream is no JSON that every reader sees alike: %w", err)
				return false
			}
			s.at = gjson.ParseBytes(data)
			return true
		}
	}
	if s.err == nil {
		s.err = s.events.Err()
	}
	return false
}

func (s *eventStream) close() { _ = s.events.Close() } // what is needed of the body was read, so an error loses no data

// parseUnambiguous returns JSON that all readers interpret in the same way. For other JSON it returns a missing value.
func parseUnambiguous(raw []byte) gjson.Result {
	if strictjson.CheckLenient(raw) != nil {
		return gjson.Result{}
	}
	return gjson.ParseBytes(raw)
}
