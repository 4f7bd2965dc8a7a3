// Package apierror gives every error the one form that callers get: [Status] makes a
// google.rpc.Status of it, with reason, field, limit and allowed values, or withholds it under an
// id.
//
// It owns the table of codes and the bounds of details.
// Invariant: what is not a refusal tells nothing about the inside, and no detail passes what a
// trailer takes.
package apierror
