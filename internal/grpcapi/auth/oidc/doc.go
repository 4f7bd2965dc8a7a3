// Package oidc says who the holders of other people's tokens are: JSON web tokens of the issuers
// that the operator names, judged by the keys that those publish.
//
// It owns the keys, which it fetches, keeps and fetches again, and the rules by which claims become
// a principal with scopes and namespaces.
// Invariants: a token gives what a rule of the operator's names and nothing else; no key that an
// issuer no longer publishes counts; no caller makes this process fetch more often than its limit;
// no error repeats a token.
package oidc
