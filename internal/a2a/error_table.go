package a2a

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// Domain is the domain in the ErrorInfo of errors that the protocol defines. Other errors have the
// domain of the engine.
const Domain = "a2a-protocol.org"

// engineDomain is the domain of reasons that come from the engine.
const engineDomain = "pawl.dev"

// kind is a row of the table of errors. It contains the codes of an error in each protocol binding.
type kind struct {
	// reason is the name of the error in UPPER_SNAKE case, without "Error". If it is "", the reason of
	// the engine is used.
	reason string
	// rpc is the JSON-RPC code, code is the gRPC code, and http is the HTTP status.
	rpc  int
	code codes.Code
	http int
}

// These are the errors that the protocol defines (A2A specification §5.4). Two of them are missing
// because they cannot occur: an executor can answer only with a task or a message
// (InvalidAgentResponse), and every declared extended card exists (ExtendedAgentCardNotConfigured).
var (
	taskNotFound         = &kind{"TASK_NOT_FOUND", -32001, codes.NotFound, http.StatusNotFound}
	taskNotCancelable    = &kind{"TASK_NOT_CANCELABLE", -32002, codes.FailedPrecondition, http.StatusBadRequest}
	pushNotSupported     = &kind{"PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, codes.FailedPrecondition, http.StatusBadRequest}
	unsupportedOperation = &kind{"UNSUPPORTED_OPERATION", -32004, codes.FailedPrecondition, http.StatusBadRequest}
	contentType          = &kind{"CONTENT_TYPE_NOT_SUPPORTED", -32005, codes.InvalidArgument, http.StatusBadRequest}
	extensionRequired    = &kind{"EXTENSION_SUPPORT_REQUIRED", -32008, codes.FailedPrecondition, http.StatusBadRequest}
	versionNotSupported  = &kind{"VERSION_NOT_SUPPORTED", -32009, codes.FailedPrecondition, http.StatusBadRequest}
)

// These are the errors of JSON-RPC itself. The other bindings use the closest code.
var (
	parseError     = &kind{"PARSE_ERROR", -32700, codes.InvalidArgument, http.StatusBadRequest}
	invalidRequest = &kind{"INVALID_REQUEST", -32600, codes.InvalidArgument, http.StatusBadRequest}
	methodNotFound = &kind{"METHOD_NOT_FOUND", -32601, codes.Unimplemented, http.StatusNotFound}
	invalidParams  = &kind{"INVALID_PARAMS", -32602, codes.InvalidArgument, http.StatusBadRequest}
	internalError  = &kind{"INTERNAL", -32603, codes.Internal, http.StatusInternalServerError}
)

// serverError is the JSON-RPC code of errors that neither JSON-RPC nor the protocol defines.
const serverError = -32000

// These are the errors of the engine that the protocol does not define.
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
