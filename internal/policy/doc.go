// Package policy decides who may do what: scopes of principals, the authority
// over a turn by its state's orchestration, and the operator's allowlist of
// tools. It is pure: every fact that a decision rests on is an argument.
package policy
