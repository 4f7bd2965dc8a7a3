package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/http/httpguts"

	"github.com/pawl-dev/pawl/internal/secretfile"
)

// envelope is the number of bytes that an answer may have in addition to the result in it.
const envelope = 64 << 10

// httpTransport returns the transport to the server's URL. It sends a request again only if the first one
// certainly was not executed. It follows no redirect, because a redirect could send the headers to another
// server. It resumes no stream.
func (m *Client) httpTransport(c *connection) (sdk.Transport, error) {
	headers, err := ReadHeaders(m.cfg.HeadersFile)
	if err != nil {
		return nil, err
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	c.release = base.CloseIdleConnections
	base.MaxIdleConnsPerHost, base.MaxResponseHeaderBytes = 16, envelope
	client := &http.Client{
		Transport:     &limitedTransport{base: base, headers: headers, limit: m.cfg.MediaBytes + envelope},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &sdk.StreamableClientTransport{
		Endpoint: m.cfg.URL, HTTPClient: client, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: int(m.cfg.MediaBytes + envelope),
	}, nil
}

// limitedTransport adds the headers to requests and limits the size of their answers.
type limitedTransport struct {
	base    http.RoundTripper
	headers http.Header
	limit   int64
}

// RoundTrip sends a request. A status that is not a success is an error, unless the body contains the
// answer. It reads and checks a JSON answer to a call itself, because the SDK would end the connection after
// an invalid answer.
func (b *limitedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	maps.Copy(req.Header, b.headers)
	got, err := b.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	large, calls := req.Context().Value(sizeKey{}).(*atomic.Bool)
	got.Body = &boundedBody{ReadCloser: got.Body, bytesLeft: b.limit, large: large}
	kind, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
	failed := got.StatusCode >= 300 && req.Method == http.MethodPost
	if !failed && (!calls || kind != "application/json") {
		return got, nil
	}
	raw, err := io.ReadAll(got.Body)
	_ = got.Body.Close() // it is read
	message, faulty := jsonrpc.DecodeMessage(raw)
	response, ok := message.(*jsonrpc.Response)
	switch {
	case failed && (err != nil || !ok || response.Error == nil || !hasErrorBody(got.StatusCode)):
		return nil, &statusError{got.StatusCode}
	case err != nil:
		return nil, err
	case faulty != nil:
		return nil, fmt.Errorf("%w: %w", errInvalid, faulty)
	case !ok, !failed && response.ID != idOf(req): // the SDK would wait for another answer
		return nil, errInvalid
	}
	got.Body = io.NopCloser(bytes.NewReader(raw))
	return got, nil
}

// idOf returns the id of the JSON-RPC request in an HTTP request. It returns the zero value if there is
// none.
func idOf(req *http.Request) (id jsonrpc.ID) {
	if req.GetBody == nil {
		return id
	}
	body, err := req.GetBody()
	if err != nil {
		return id
	}
	raw, err := io.ReadAll(body) // of the SDK, in memory
	if err != nil {
		return id
	}
	message, _ := jsonrpc.DecodeMessage(raw)
	if request, ok := message.(*jsonrpc.Request); ok {
		id = request.ID
	}
	return id
}

// hasErrorBody reports whether an error response has the answer in its body. For other statuses the status itself
// is the error, because the MCP specification does not define their bodies.
func hasErrorBody(status int) bool {
	return status == http.StatusBadRequest || status < 500 && !slices.Contains(refusing, status)
}

// sizeKey is the context key of a flag. The flag is set if the answer of a call is too large. The SDK does
// not report read errors of an answer that is a stream.
type sizeKey struct{}

func withSize(ctx context.Context) context.Context {
	return context.WithValue(ctx, sizeKey{}, new(atomic.Bool))
}

// tooLarge reports whether a request failed because its answer is too large.
func tooLarge(ctx context.Context, err error) bool {
	large, ok := ctx.Value(sizeKey{}).(*atomic.Bool)
	return errors.Is(err, errTooLarge) || ok && large.Load()
}

// boundedBody is a body that returns an error when it exceeds its limit.
type boundedBody struct {
	io.ReadCloser
	bytesLeft int64
	// large is set to true when the body exceeds its limit. It may be nil.
	large *atomic.Bool
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.bytesLeft < 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p)
	if b.bytesLeft -= int64(n); b.bytesLeft < 0 {
		if b.large != nil {
			b.large.Store(true)
		}
		return 0, errTooLarge
	}
	return n, err
}

// protocolHeaders are the headers that only the protocol may set.
var protocolHeaders = []string{"Accept", "Content-Length", "Content-Type", "Host", "Idempotency-Key", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "X-Idempotency-Key"}

// ReadHeaders reads a file with lines NAME: VALUE. It ignores empty lines and lines that begin with #. Other
// users must not be able to read the file. The error contains the line number but no value. For the path ""
// there are no headers.
func ReadHeaders(path string) (http.Header, error) {
	headers := http.Header{}
	err := readLines(path, func(line string) error {
		name, value, ok := strings.Cut(line, ":")
		name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case !ok || !httpguts.ValidHeaderFieldName(name):
			return errors.New("is no NAME: VALUE")
		case !httpguts.ValidHeaderFieldValue(value):
			return errors.New("the value has a character that no header has")
		case slices.Contains(protocolHeaders, name):
			return fmt.Errorf("%s belongs to the protocol", name)
		}
		headers.Add(name, value)
		return nil
	})
	return headers, err
}

// ReadEnv reads a file with lines NAME=VALUE. It ignores empty lines and lines that begin with #. Other
// users must not be able to read the file. The error contains the line number but no value. For the path ""
// there are no variables.
func ReadEnv(path string) (env []string, err error) {
	err = readLines(path, func(line string) error {
		name, value, ok := strings.Cut(line, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsRune(value, 0) {
			return errors.New("is no NAME=VALUE")
		}
		env = append(env, name+"="+value)
		return nil
	})
	return env, err
}

// readLines calls take for each line of a file with secrets that is neither empty nor a comment (#).
func readLines(path string, take func(line string) error) error {
	if path == "" {
		return nil
	}
	raw, err := secretfile.Read(path)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(raw), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		if err := take(line); err != nil {
			return fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	return nil
}
