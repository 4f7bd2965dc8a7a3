// Package oidc identifies callers by JSON web tokens of the issuers that the operator
// configures, verified with the keys that those publish.
//
// It owns the keys, which it fetches, caches and refreshes, and the rules by which claims
// become a principal with scopes and namespaces. Invariants: a token grants only what a rule of
// the operator grants; a key that an issuer no longer publishes is not accepted; callers cannot
// make this process fetch more often than its limit; no error repeats a token.
package oidc
