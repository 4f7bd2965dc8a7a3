package a2a

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// Domain is the domain of the ErrorInfo of errors that the protocol names;
// others have the domain of the engine.
const Domain = "a2a-protocol.org"

// engineDomain is the domain of reasons that the engine gave.
const engineDomain = "pawl.dev"

// kind is one row of the table of errors: what one error is on each binding.
type kind struct {
	// reason is the name of the error in UPPER_SNAKE, without "Error"; "" = the
	// error's own.
	reason string
	// rpc is the code of JSON-RPC, code that of gRPC, http the status.
	rpc  int
	code codes.Code
	http int
}

// The errors that the protocol names (S§5.4), but for two: an executor cannot
// answer with anything that is no task (InvalidAgentResponse), and the extended card
// is there wherever it is declared (ExtendedAgentCardNotConfigured).
var (
	taskNotFound         = &kind{"TASK_NOT_FOUND", -32001, codes.NotFound, http.StatusNotFound}
	taskNotCancelable    = &kind{"TASK_NOT_CANCELABLE", -32002, codes.FailedPrecondition, http.StatusBadRequest}
	pushNotSupported     = &kind{"PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, codes.FailedPrecondition, http.StatusBadRequest}
	unsupportedOperation = &kind{"UNSUPPORTED_OPERATION", -32004, codes.FailedPrecondition, http.StatusBadRequest}
	contentType          = &kind{"CONTENT_TYPE_NOT_SUPPORTED", -32005, codes.InvalidArgument, http.StatusBadRequest}
	extensionRequired    = &kind{"EXTENSION_SUPPORT_REQUIRED", -32008, codes.FailedPrecondition, http.StatusBadRequest}
	versionNotSupported  = &kind{"VERSION_NOT_SUPPORTED", -32009, codes.FailedPrecondition, http.StatusBadRequest}
)

// The errors of JSON-RPC itself; the other bindings have the nearest code.
var (
	parseError     = &kind{"PARSE_ERROR", -32700, codes.InvalidArgument, http.StatusBadRequest}
	invalidRequest = &kind{"INVALID_REQUEST", -32600, codes.InvalidArgument, http.StatusBadRequest}
	methodNotFound = &kind{"METHOD_NOT_FOUND", -32601, codes.Unimplemented, http.StatusNotFound}
	invalidParams  = &kind{"INVALID_PARAMS", -32602, codes.InvalidArgument, http.StatusBadRequest}
	internalError  = &kind{"INTERNAL", -32603, codes.Internal, http.StatusInternalServerError}
)

// serverError is the code of JSON-RPC for what neither it nor the protocol names.
const serverError = -32000

// The classes of the engine's refusals that the protocol does not name.
var (
	badValue         = &kind{"", -32602, codes.InvalidArgument, http.StatusBadRequest}
	notFound         = &kind{"", -32602, codes.NotFound, http.StatusNotFound}
	alreadyExists    = &kind{"", -32602, codes.AlreadyExists, http.StatusConflict}
	outOfRange       = &kind{"", -32602, codes.OutOfRange, http.StatusBadRequest}
	notNow           = &kind{"", -32004, codes.FailedPrecondition, http.StatusBadRequest}
	unauthenticated  = &kind{"", serverError, codes.Unauthenticated, http.StatusUnauthorized}
	permissionDenied = &kind{"", serverError, codes.PermissionDenied, http.StatusForbidden}
	aborted          = &kind{"", serverError, codes.Aborted, http.StatusConflict}
	tooLarge         = &kind{"", serverError, codes.ResourceExhausted, http.StatusRequestEntityTooLarge}
	tooMany          = &kind{"", serverError, codes.ResourceExhausted, http.StatusTooManyRequests}
	unavailable      = &kind{"", serverError, codes.Unavailable, http.StatusServiceUnavailable}
	callerGone       = &kind{"CALL_ENDED", serverError, codes.Canceled, 499}
	deadlinePassed   = &kind{"CALL_ENDED", serverError, codes.DeadlineExceeded, http.StatusGatewayTimeout}
)
