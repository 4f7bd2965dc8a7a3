// Package approval decides whether a call is held for approval, stamps decisions about held calls,
// and verifies that a call that is about to be sent is exactly the approved one.
//
// Owns: no data. It reads the history of runs.
//
// Guarantees: it fails closed. A condition that cannot be evaluated holds the call. A call is not
// sent if the operator's allowlist does not admit its tool at that moment, or if its digest,
// computed again from the stored data, is not the approved one.
package approval
