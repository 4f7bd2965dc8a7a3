// Package quota says how much of what may be asked for at once, and by whom.
//
// It owns the allowances of principals, of which it remembers a bounded number. grpcapi
// asks it behind the door, where the caller is known; it may import door, the bounded
// cache and the machine's refusals. Invariant: what it refuses says when to come back.
package quota
