// Package approvals has the commands by which people decide about held calls.
//
// Owns: nothing; it asks the sidecar.
// Called by: cmd/sidecar.
// May import: command, cli, gen.
// Keeps: what is decided is what was shown: the digest of the call goes with the decision.
package approvals
