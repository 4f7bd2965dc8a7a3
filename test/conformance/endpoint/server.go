package endpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Request is one request that the endpoint got.
type Request struct {
	// At is when.
	At time.Time
	// Round is the one that was due, from 0.
	Round int
	// Breach is what the endpoint refused. "" means that it accepted the request.
	Breach string
	// Body as it came.
	Body map[string]any
}

// conversation is a case with one executor.
type conversation struct{ name, executor string }

// Server is a running endpoint.
type Server struct {
	// URL has no path. A conversation's base URL is URL/CASE/EXECUTOR.
	URL string

	http  *http.Server
	cases map[string]*Case

	mu       sync.Mutex
	due      map[conversation]int
	requests map[conversation][]Request
}

// Start listens on a loopback port.
func Start(cases []*Case) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{
		URL: "http://" + listener.Addr().String(), cases: map[string]*Case{},
		due: map[conversation]int{}, requests: map[conversation][]Request{},
	}
	for _, c := range cases {
		s.cases[c.Name] = c
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(listener) }() // it ends by Close
	return s, nil
}

// Close ends it and its connections.
func (s *Server) Close() error { return s.http.Close() }

// Base is the base URL of a conversation, as clients of the form want it.
func (s *Server) Base(c *Case, executor string) string {
	base := s.URL + "/" + c.Name + "/" + executor
	if c.Form == Messages {
		return base
	}
	return base + "/v1"
}

// Requests are the requests of a conversation so far.
func (s *Server) Requests(name, executor string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests[conversation{name, executor}]...)
}

// maxRequest bounds a request, bytes.
const maxRequest = 256 << 20

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, executor, err := s.route(r)
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	request := Request{At: time.Now()}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(body, &request.Body)
	}
	if err != nil {
		request.Breach = "the body is no JSON object: " + err.Error()
	} else {
		request.Breach = findBreach(c, request.Body)
	}
	round := s.note(conversation{c.Name, executor}, c, request)
	if request.Breach != "" {
		refuse(w, http.StatusBadRequest, request.Breach)
		return
	}
	round.write(w, c.Form, toolNameReplacer(request.Body))
}

// toolNameReplacer are the names of tools in a request, each behind what a case calls it: {DESCRIPTION}.
func toolNameReplacer(body map[string]any) *strings.Replacer {
	var pairs []string
	for _, tool := range list(body["tools"]) {
		if function, ok := tool["function"].(map[string]any); ok {
			tool = function
		}
		if described := word(tool["description"]); described != "" {
			pairs = append(pairs, "{"+described+"}", word(tool["name"]))
		}
	}
	return strings.NewReplacer(pairs...)
}

// route is the case and the executor of a path, which has to be the form's.
func (s *Server) route(r *http.Request) (*Case, string, error) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	if len(parts) < 3 {
		return nil, "", errors.New("the path is /CASE/EXECUTOR/…")
	}
	c := s.cases[parts[0]]
	switch {
	case c == nil:
		return nil, "", fmt.Errorf("there is no case %s", parts[0])
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, paths[c.Form]):
		return nil, "", fmt.Errorf("%s %s: a case of the form %s is POST …%s", r.Method, r.URL.Path, c.Form, paths[c.Form])
	}
	return c, parts[1], nil
}

// note keeps a request, and gives the round that is due. One that is refused uses none up.
func (s *Server) note(t conversation, c *Case, request Request) *Round {
	s.mu.Lock()
	defer s.mu.Unlock()
	request.Round = s.due[t]
	s.requests[t] = append(s.requests[t], request)
	round := c.Rounds[min(request.Round, len(c.Rounds)-1)]
	if request.Breach == "" && !round.Loop {
		s.due[t]++
	}
	return round
}

// refuse answers with an error in the form that all three have.
func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", contentTypeOfOtherAnswers)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text(object{"type": "error", "error": object{"message": message, "type": "invalid_request_error", "code": status}}))
}

// write answers with the round. A client that has gone does not read it.
func (r *Round) write(w http.ResponseWriter, form Form, names *strings.Replacer) {
	for name, value := range r.Headers {
		if value == "{date+2}" {
			value = time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat)
		}
		w.Header().Set(name, value)
	}
	if r.Status != 0 {
		w.Header().Set("Content-Type", cmp.Or(r.Type, contentTypeOfOtherAnswers))
		w.WriteHeader(r.Status)
		_, _ = io.WriteString(w, cmp.Or(r.Body, `{"error": {"message": "no"}}`))
		return
	}
	w.Header().Set("Content-Type", cmp.Or(r.Type, contentTypeOfStreams))
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	for _, piece := range r.chunks([]byte(names.Replace(string(r.body(form))))) {
		if _, err := w.Write(piece); err != nil {
			return
		}
		if err := flush(); err != nil {
			return
		}
	}
	if r.Cut {
		panic(http.ErrAbortHandler) // closes the connection without the last chunk
	}
}

// chunks are the pieces in which a body is sent.
func (r *Round) chunks(body []byte) [][]byte {
	if !r.Split {
		return [][]byte{body}
	}
	var all [][]byte
	for i := range body {
		all = append(all, body[i:i+1])
	}
	return all
}
