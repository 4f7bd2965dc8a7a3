package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// maxForeignError is the number of bytes of an agent's error that are read.
const maxForeignError = 64 << 10

var (
	// errRefused means that the agent refuses with an error that is not an error of the protocol.
	errRefused = errors.New("the agent refuses")
	// errDenied means that the agent refuses the principal that answers, or its decision. The agent may accept an
	// answer from another principal, or a different answer.
	errDenied = errors.New("the agent refuses")
	// errNotTaken means that the agent currently accepts no messages. The message had no effect.
	errNotTaken = errors.New("the agent takes nothing now")
)

// denials are the reasons of errors with which a sidecar refuses a principal, or its decision about a tool call that
// waits for approval. The question of the agent then stays open.
var denials = map[string]bool{
	"SCOPE_MISSING": true, "APPROVER_IS_STARTER": true, "DIGEST_MISMATCH": true, "ALREADY_DECIDED": true, "NOTHING_TO_DECIDE": true,
	"EDIT_REFUSED": true, "EXPIRES_IN_PAST": true, protocol.DecisionInvalid: true,
}

// named returns the A2A error that has the given reason, with a message. It returns nil if no A2A error has this
// reason.
func named(reason, message string) error {
	for _, err := range append([]error{a2a.ErrTaskNotFound, a2a.ErrTaskNotCancelable}, refusals...) {
		if reason != "" && a2a.ErrorReason(err) == reason {
			return fmt.Errorf("%w: %s", err, message)
		}
	}
	return nil
}

// ofGRPC converts an error of the gRPC binding. Errors of the protocol are recognized by their reason,
// other errors by their code. The end of a stream is not an error.
func ofGRPC(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	st := status.Convert(err)
	reason := ""
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			reason = info.GetReason()
		}
	}
	if err := named(reason, st.Message()); err != nil {
		return err
	}
	if denials[reason] {
		return fmt.Errorf("%w: %s: %s", errDenied, reason, st.Message())
	}
	switch st.Code() {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.AlreadyExists, codes.NotFound,
		codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied:
		return fmt.Errorf("%w: %s %s: %s", errRefused, st.Code(), reason, st.Message())
	}
	return err
}

// temporaryStatuses are the HTTP statuses below 500 that are temporary: another attempt may succeed.
var temporaryStatuses = map[int]bool{
	http.StatusNotFound: true, http.StatusConflict: true, http.StatusRequestTimeout: true,
	http.StatusTooEarly: true, http.StatusTooManyRequests: true,
}

// notTaken reports whether the request certainly had no effect. For a 503 this is certain only if there
// is a Retry-After, because proxies also send 503 if an agent breaks off in the middle of a request.
func notTaken(resp *http.Response) bool {
	return temporaryStatuses[resp.StatusCode] || resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != ""
}

// ofRPC converts an error in a JSON-RPC answer with the status 200. For the protocol's own errors, the
// SDK keeps the reasons. For other errors it keeps only the metadata.
func ofRPC(err error) error {
	told, ok := errors.AsType[*a2a.Error](err)
	if !ok {
		return err
	}
	meta, _ := told.ErrorInfo().Value["metadata"].(map[string]string)
	if reason := meta["reason"]; denials[reason] {
		return fmt.Errorf("%w: %s: %s", errDenied, reason, told.Message)
	}
	return err
}

type errorDetail struct {
	Reason string `json:"reason"`
}

// ofHTTP converts an HTTP answer that is not a success. Errors of the protocol are recognized by their
// reason, other errors by their status.
func ofHTTP(resp *http.Response) error {
	if resp.StatusCode < 400 {
		return nil
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxForeignError))
	var body struct {
		Error struct {
			Message string `json:"message"`
			// HTTP+JSON uses Details, JSON-RPC uses Data.
			Details []errorDetail `json:"details"`
			Data    []errorDetail `json:"data"`
		} `json:"error"`
	}
	_ = strictjson.Decode(raw, &body, strictjson.Foreign) // an unreadable body has no reason
	reason := ""
	for _, detail := range append(body.Error.Details, body.Error.Data...) {
		if detail.Reason != "" {
			reason = detail.Reason
		}
	}
	if err := named(reason, body.Error.Message); err != nil {
		return err
	}
	if denials[reason] {
		return fmt.Errorf("%w: %s: %s", errDenied, reason, body.Error.Message)
	}
	text := fmt.Sprintf("%s %s: %s", resp.Status, reason, body.Error.Message)
	if notTaken(resp) {
		return fmt.Errorf("%w: %s", errNotTaken, text)
	}
	if resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented {
		return errors.New("the agent answers " + text)
	}
	return fmt.Errorf("%w: %s", errRefused, text)
}
