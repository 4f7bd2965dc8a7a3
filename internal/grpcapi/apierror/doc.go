// Package apierror gives every error the one form that callers get: [Status] makes a
// google.rpc.Status of it, with reason, field, limit and allowed values, or withholds
// it under an id.
//
// It owns the table of codes and the bounds of details. All of the edge calls it, the
// services as the gateway; it may import the contract and the machine's refusals.
// Invariant: what is not a refusal tells nothing about the inside, and no detail
// passes what a trailer takes.
package apierror
