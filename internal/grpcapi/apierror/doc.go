// Package apierror gives every error the form that callers get: [Status] converts it to a
// google.rpc.Status with reason, field, limit and allowed values. If callers must not see the error,
// they get only an id, under which the log has it.
//
// It owns the table of codes and the limits of details. Invariant: an error that is not a
// *machine.Error reveals no internals, and no detail exceeds the size of a trailer.
package apierror
