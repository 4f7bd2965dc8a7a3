// Package apierror converts errors to the form that callers receive. [Status] returns a
// google.rpc.Status with reason, field, limit and allowed values. If callers must not see an error,
// they receive only an id. The log contains the error under this id.
//
// Owns: the table of codes and the limits of details.
//
// Guarantees: an error that is neither a *machine.Error nor a gRPC status reveals no internals, and no detail exceeds the
// size of a trailer.
package apierror
