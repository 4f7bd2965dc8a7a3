// Package approval decides whether a tool call waits for approval, completes decisions about
// waiting calls, and verifies that a call that is about to be sent is exactly the approved one.
//
// Owns: no data. It reads the history of runs.
//
// Guarantees: it fails closed. If a condition cannot be evaluated, the call waits for approval. A
// call is not sent if the operator's allowlist does not contain its tool at that moment, or if its
// digest, computed from the stored data, is not the approved one.
package approval
