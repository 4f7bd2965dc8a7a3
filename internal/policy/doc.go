// Package policy decides about authority: the scopes of principals, the right to act on a turn according to its state's orchestration,
// and the operator's allowlist of tools. It is pure: all facts that a decision needs are arguments.
package policy
