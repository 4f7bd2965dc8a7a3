// Package calllimit limits the calls of a principal and the streams that are open at once.
//
// It owns the count of open streams. Rates are counted by package quota. The caller is known when
// grpcapi asks it. Invariant: a refusal says when the caller may try again.
package calllimit
