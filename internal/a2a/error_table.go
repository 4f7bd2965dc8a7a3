package a2a

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// Domain is the domain of the ErrorInfo of errors that the protocol names. Others have the domain of the engine.
const Domain = "a2a-protocol.org"

// engineDomain is the domain of reasons that come from the engine.
const engineDomain = "pawl.dev"

// kind is a row of the table of errors: the codes of an error in each protocol binding.
type kind struct {
	// reason is the name of the error in UPPER_SNAKE, without "Error". If it is "", the reason is that of the
	// engine.
	reason string
	// rpc is the JSON-RPC code, code the gRPC code, http the HTTP status.
	rpc  int
	code codes.Code
	http int
}

// The errors that the protocol names (S§5.4), except two that cannot occur: an executor cannot answer with anything but a
// task or a message (InvalidAgentResponse), and every declared extended card exists (ExtendedAgentCardNotConfigured).
var (
	taskNotFound         = &kind{"TASK_NOT_FOUND", -32001, codes.NotFound, http.StatusNotFound}
	taskNotCancelable    = &kind{"TASK_NOT_CANCELABLE", -32002, codes.FailedPrecondition, http.StatusBadRequest}
	pushNotSupported     = &kind{"PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, codes.FailedPrecondition, http.StatusBadRequest}
	unsupportedOperation = &kind{"UNSUPPORTED_OPERATION", -32004, codes.FailedPrecondition, http.StatusBadRequest}
	contentType          = &kind{"CONTENT_TYPE_NOT_SUPPORTED", -32005, codes.InvalidArgument, http.StatusBadRequest}
	extensionRequired    = &kind{"EXTENSION_SUPPORT_REQUIRED", -32008, codes.FailedPrecondition, http.StatusBadRequest}
	versionNotSupported  = &kind{"VERSION_NOT_SUPPORTED", -32009, codes.FailedPrecondition, http.StatusBadRequest}
)

// The errors of JSON-RPC itself. The other bindings use the nearest code.
var (
	parseError     = &kind{"PARSE_ERROR", -32700, codes.InvalidArgument, http.StatusBadRequest}
	invalidRequest = &kind{"INVALID_REQUEST", -32600, codes.InvalidArgument, http.StatusBadRequest}
	methodNotFound = &kind{"METHOD_NOT_FOUND", -32601, codes.Unimplemented, http.StatusNotFound}
	invalidParams  = &kind{"INVALID_PARAMS", -32602, codes.InvalidArgument, http.StatusBadRequest}
	internalError  = &kind{"INTERNAL", -32603, codes.Internal, http.StatusInternalServerError}
)

// serverError is the JSON-RPC code of errors that neither JSON-RPC nor the protocol names.
const serverError = -32000

// Errors of the engine that the protocol does not name.
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
