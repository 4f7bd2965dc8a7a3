package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/text/unicode/norm"
)

// These are the codes of faults. The codes of the first group mean that the tool was not executed.
const (
	// CodeUnreachable means that there was no connection to the server, so nothing was sent.
	CodeUnreachable = "MCP_UNREACHABLE"
	// CodeRefused means that the server refused the request before it executed the tool.
	CodeRefused = "MCP_REFUSED"
	// CodeNoTool means that the server has no usable tool with this name.
	CodeNoTool = "MCP_NO_TOOL"
	// CodeChanged means that the tool with this name has another digest than the pack pins.
	CodeChanged = "MCP_TOOL_CHANGED"
	// CodeInput means that the server requests an input before it executes the tool.
	CodeInput = "MCP_INPUT_REQUIRED"
	// CodeArguments means that the arguments are not a JSON object.
	CodeArguments = "INVALID_ARGUMENTS"

	// CodeTool means that the tool was executed and reported an error.
	CodeTool = "TOOL_ERROR"

	// CodeLost means that the connection ended between the request and its answer.
	CodeLost = "MCP_CONNECTION_LOST"
	// CodeTimeout means that there was no answer in time.
	CodeTimeout = "MCP_TIMEOUT"
	// CodeFailed means that the server answered with an error that does not say whether the tool was executed.
	CodeFailed = "MCP_FAILED"
	// CodeTooLarge means that the answer is larger than the configured limit.
	CodeTooLarge = "ANSWER_TOO_LARGE"
	// CodeNotStored means that the answer has media that could not be stored.
	CodeNotStored = "MCP_MEDIA_NOT_STORED"
	// CodeInvalid means that the message is not a valid answer to a call.
	CodeInvalid = "ANSWER_INVALID"
)

// Fault is the error of a call.
type Fault struct {
	Code, Message string
	// Unknown means that the call may have taken effect.
	Unknown bool
	// Final means that the same call would fail again. It is not set together with Unknown.
	Final bool
}

func (f *Fault) Error() string { return f.Code + ": " + f.Message }

// maxMessage bounds the text of a fault, in bytes.
const maxMessage = 4 << 10

// fault returns a fault with a message that can be stored and shown.
func (m *Client) fault(code, format string, args ...any) *Fault {
	return &Fault{Code: code, Message: clip("MCP server " + m.cfg.Name + ": " + fmt.Sprintf(format, args...))}
}

// clip returns a text of a server as valid UTF-8, without control characters and shortened to maxMessage.
func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, norm.NFC.String(strings.ToValidUTF8(text, "")))
	return strings.ToValidUTF8(text[:min(len(text), maxMessage)], "")
}

// statusError is the error of an HTTP response that is not a success. It is not used if the body of the response
// contains the answer of the call.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return fmt.Sprintf("HTTP status %d %s", e.status, http.StatusText(e.status))
}

// refusing are the HTTP statuses that mean that the server refused a request before it executed anything. Other
// statuses leave this open. For example, a gateway may answer 502 or 504 to a request that was executed.
var refusing = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
	http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests,
}

// Errors of reading an answer.
var (
	errTooLarge = errors.New("the answer is too large")
	errInvalid  = errors.New("the answer is no JSON-RPC message")
)

// These are the codes of JSON-RPC errors with which a server refuses a request before it executes the tool: -32700,
// -32600, -32601, -32602, and the codes that the MCP specification reserves for faulty requests since the revision
// firstReserving. In older revisions, servers used the reserved codes for their own errors.
const (
	codeParse         = -32700
	codeFirstRequest  = -32602
	codeLastRequest   = -32600
	codeFirstReserved = -32099
	codeLastReserved  = -32020
	// codeTransport is the code that the SDK itself uses if its transport did not complete a request.
	codeTransport = -32005

	firstReserving = "2026-07-28"
)

// isServerError reports whether an error was sent by the server, and was not made by the SDK.
func isServerError(err error) bool {
	rpc, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && rpc.Code != codeTransport
}

// refusal reports whether the code means that a server refused the request before it executed the tool. revision is
// the MCP revision of the server.
func refusal(code int64, revision string) bool {
	return code == codeParse || code >= codeFirstRequest && code <= codeLastRequest ||
		code >= codeFirstReserved && code <= codeLastReserved && revision >= firstReserving
}

// isConnectionLost reports whether the connection can no longer be used after the error of a request.
func (m *Client) isConnectionLost(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		// A server process that does not answer is ended and started again.
		return m.cfg.Command != "" && errors.Is(ctx.Err(), context.DeadlineExceeded)
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		return slices.Contains([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound}, status.status)
	}
	oneAnswer := m.cfg.URL != "" && (tooLarge(ctx, err) || errors.Is(err, errInvalid))
	return !isServerError(err) && !oneAnswer
}

// notSent reports whether a failed request certainly was not executed.
func notSent(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return slices.Contains(refusing, status.status)
	}
	network, ok := errors.AsType[*net.OpError](err)
	return ok && network.Op == "dial"
}

// outcome returns the fault of a call that got no result.
func (m *Client) outcome(ctx context.Context, c *connection, err error) *Fault {
	if rpc, _ := errors.AsType[*jsonrpc.Error](err); isServerError(err) {
		if refusal(rpc.Code, c.session.InitializeResult().ProtocolVersion) {
			f := m.fault(CodeRefused, "%d: %s", rpc.Code, rpc.Message)
			f.Final = true
			return f
		}
		f := m.fault(CodeFailed, "%d: %s", rpc.Code, rpc.Message)
		f.Unknown = true
		return f
	}
	if status, ok := errors.AsType[*statusError](err); ok && notSent(err) {
		f := m.fault(CodeRefused, "%v", err)
		f.Final = status.status != http.StatusTooManyRequests && status.status != http.StatusNotFound
		return f
	}
	if notSent(err) {
		return m.fault(CodeUnreachable, "%v", err)
	}
	f := m.fault(CodeLost, "no answer came: %v", err)
	switch {
	case tooLarge(ctx, err):
		f = m.fault(CodeTooLarge, "the answer has more than %d bytes", m.cfg.MediaBytes)
	case errors.Is(err, errInvalid):
		f = m.fault(CodeInvalid, "%v", err)
	case ctx.Err() != nil:
		f = m.fault(CodeTimeout, "no answer came in time")
	}
	f.Unknown = true
	return f
}
