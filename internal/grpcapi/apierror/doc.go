// Package apierror gives every error the one form that callers get: [Status] converts it to a
// google.rpc.Status, with reason, field, limit and allowed values, or withholds it under an id.
//
// It owns the table of codes and the limits of details. Invariant: an error that is not a
// refusal reveals no internals, and no detail exceeds the size of a trailer.
package apierror
