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

// maxFaultBytes bounds what is read of an answer that says why there is none.
const maxFaultBytes = 1 << 20

// eventStream is an answer as it comes in, event by event.
type eventStream struct {
	events ssestream.Decoder
	// at is what the newest event says: JSON.
	at gjson.Result
	// ended: the endpoint has said the end of the stream.
	ended bool
	err   error
}

// ask sends a request to a path of the endpoint. Whoever gets the stream closes it.
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

// refusedBy reads why an endpoint refuses a request.
func (e *Endpoint) refusedBy(res *http.Response) error {
	said, _ := io.ReadAll(io.LimitReader(res.Body, maxFaultBytes)) // what is there of it says more than nothing
	return e.refused(res.StatusCode, res.Header, faultWords(said))
}

// next reads the next event; false: there is none, because the stream is over or, as err
// says, because it failed.
func (s *eventStream) next() bool {
	for s.err == nil && s.events.Next() {
		data := bytes.TrimSpace(s.events.Event().Data)
		switch {
		case len(data) == 0:
		case bytes.HasPrefix(data, []byte("[DONE]")):
			s.ended = true
			return false
		default:
			// It bounds the depth, too, and refuses a member of which gjson would take the first.
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

func (s *eventStream) close() { _ = s.events.Close() } // of a body that was read: nothing is lost by it

// seen reads JSON that all readers see alike; of any other there is nothing.
func seen(raw []byte) gjson.Result {
	if strictjson.CheckLenient(raw) != nil {
		return gjson.Result{}
	}
	return gjson.ParseBytes(raw)
}
