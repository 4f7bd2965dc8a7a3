// Package calllimit says how much of what may be asked for at once, and by whom.
//
// It owns the count of open streams; rates are the book's of package allowance. grpcapi asks it
// behind the door, where the caller is known; it may import door, allowance and the machine's
// refusals. Invariant: what it refuses says when to come back.
package calllimit
