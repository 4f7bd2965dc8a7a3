// Package auth authenticates callers: which connections exist, what proves the name of a caller (a
// bearer token, a client certificate, the owner's socket), and which methods the caller may call.
//
// It owns keys, tokens, certificates and the [Authenticator] that every listener uses. Invariants:
// every call passes the same check; a right that was withdrawn ends the calls and streams that began
// with it; no error repeats a secret.
package auth
