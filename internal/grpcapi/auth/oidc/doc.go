// Package oidc identifies callers by JSON web tokens. It accepts tokens of the issuers that the
// operator configures, and verifies them with the keys that the issuers publish.
//
// Owns: the keys, which it fetches, caches and refreshes, and the rules by which claims become a
// principal with scopes and namespaces.
//
// Guarantees: a token grants only what a rule of the operator grants. A key that an issuer no longer publishes is not
// accepted after the next fetch. Callers cannot make this process fetch keys more often than its limit. No error contains
// a token.
package oidc
