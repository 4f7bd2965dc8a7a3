package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// rpcRequest is a JSON-RPC 2.0 request. The id is kept unchanged.
type rpcRequest struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// rpcResponse is a JSON-RPC 2.0 response, with a result or an error.
type rpcResponse struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int               `json:"code"`
	Message string            `json:"message"`
	Data    []json.RawMessage `json:"data,omitempty"`
}

// serveRPC serves the JSON-RPC binding: POST on the path of an agent.
func (s *Service) serveRPC(w http.ResponseWriter, r *http.Request, tenant string) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		writeJSON(w, http.StatusMethodNotAllowed, mediaJSON, s.rpcProblem(r, nil, methodNotAllowed(r)))
		return
	}
	req, err := s.readRPC(r)
	if err != nil {
		s.refuseRPC(w, r, req.ID, err)
		return
	}
	m := methods[req.Method]
	if m == nil {
		s.refuseRPC(w, r, req.ID, fail(methodNotFound, "%q is no method of A2A %s", clip(req.Method, 100), protocol.ProtocolVersion))
		return
	}
	ctx, err := s.admit(r, m.full)
	if err != nil {
		s.refuseRPC(w, r, req.ID, err)
		return
	}
	in, err := s.params(ctx, m, req.Params, tenant)
	if err != nil {
		s.refuseRPC(w, r, req.ID, err)
		return
	}
	writeActivatedExtensions(ctx, w)
	if m.stream != nil {
		out := &events{w: w, frame: func(data []byte) []byte { return rpcResult(req.ID, data) }}
		err := m.stream(s, ctx, in, out.send)
		s.host.Completed(ctx, m.full, in, err)
		if err != nil && !out.headerSent {
			s.refuseRPC(w, r, req.ID, err)
			return
		}
		if err != nil {
			out.fault(s.rpcProblem(r, req.ID, err))
		}
		return
	}
	out, err := m.unary(s, ctx, in)
	s.host.Completed(ctx, m.full, in, err)
	if err != nil {
		s.refuseRPC(w, r, req.ID, err)
		return
	}
	data, err := marshal(out)
	if err != nil {
		s.refuseRPC(w, r, req.ID, err)
		return
	}
	writeJSON(w, http.StatusOK, mediaJSON, rpcResult(req.ID, data))
}

// params decodes the parameters of a method, and checks the caller's right to the namespace of the agent.
func (s *Service) params(ctx context.Context, m *method, raw json.RawMessage, tenant string) (proto.Message, error) {
	in := m.request()
	if len(raw) > 0 {
		if err := unmarshal(raw, in); err != nil {
			return nil, failAt(invalidParams, "params", "%v", err)
		}
	}
	if err := setTenant(in, tenant); err != nil {
		return nil, err
	}
	return in, s.host.CheckNamespace(ctx, m.full, in)
}

// nullID returns the id of an answer to a request without an id. Each call returns new bytes, because
// decoding writes into them.
func nullID() json.RawMessage { return json.RawMessage("null") }

// readRPC decodes a JSON-RPC request. It returns an error for a request without an id, because every
// method has an answer.
func (s *Service) readRPC(r *http.Request) (rpcRequest, error) {
	req := rpcRequest{ID: nullID()}
	raw, err := s.body(r)
	if err != nil {
		return req, err
	}
	if err := strictjson.Check(raw); err != nil {
		return req, fail(parseError, "the body is no JSON that every reader sees alike: %v", err)
	}
	req.ID = nil
	if err := strictjson.Decode(raw, &req, strictjson.Foreign); err != nil {
		req = rpcRequest{ID: nullID()}
		return req, fail(invalidRequest, "want one JSON-RPC 2.0 request object: %v", err)
	}
	switch id := bytes.TrimSpace(req.ID); {
	case len(id) == 0 || id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f':
		req.ID = nullID()
		return req, fail(invalidRequest, "id: want a string or a number")
	case req.Version != "2.0":
		return req, fail(invalidRequest, `jsonrpc: want "2.0"`)
	case req.Method == "":
		return req, fail(invalidRequest, "method: is required")
	}
	if p := bytes.TrimSpace(req.Params); len(p) > 0 && p[0] != '{' && !bytes.Equal(p, nullID()) {
		return req, failAt(invalidParams, "params", "want an object")
	} else if bytes.Equal(p, nullID()) {
		req.Params = nil
	}
	return req, nil
}

// refuseRPC writes an error. The HTTP status is 200, as JSON-RPC requires. An exception is an error for
// which HTTP itself has a status.
func (s *Service) refuseRPC(w http.ResponseWriter, r *http.Request, id json.RawMessage, err error) {
	e, _ := errorOf(err)
	code := http.StatusOK
	switch e.kind {
	case unauthenticated, permissionDenied, tooLarge, tooMany, unavailable:
		code = e.kind.http
	}
	if e.kind.http == http.StatusUnauthorized || e.kind.http == http.StatusForbidden {
		code = e.kind.http
	}
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, code, mediaJSON, s.rpcProblem(r, id, err))
}

func (s *Service) rpcProblem(r *http.Request, id json.RawMessage, err error) []byte {
	e := s.problem(r.Context(), "JSON-RPC "+r.URL.Path, err)
	if id == nil {
		id = nullID()
	}
	body, _ := json.Marshal(rpcResponse{Version: "2.0", ID: id, Error: &rpcError{
		Code: e.kind.rpc, Message: clip(e.message, maxErrorText), Data: e.typed(),
	}})
	return body
}

func rpcResult(id json.RawMessage, result []byte) []byte {
	body, _ := json.Marshal(rpcResponse{Version: "2.0", ID: id, Result: result})
	return body
}

// typed returns the details of an error as JSON objects with their @type.
func (e *Error) typed() []json.RawMessage {
	var out []json.RawMessage
	for _, d := range e.details() {
		packed, err := anypb.New(d)
		if err != nil {
			continue
		}
		raw, err := protojson.Marshal(packed)
		if err != nil {
			continue
		}
		var b bytes.Buffer
		_ = json.Compact(&b, raw)
		out = append(out, b.Bytes())
	}
	return out
}

func writeJSON(w http.ResponseWriter, status int, media string, body []byte) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	//nolint:gosec,nolintlint // JSON, said to be JSON, with nosniff: no browser takes it for a page.
	_, _ = w.Write(body)
}
