// Package auth authenticates callers. It defines which kinds of connections exist, what proves the name
// of a caller (a bearer token, a client certificate, the owner's socket), and which methods a caller
// may call.
//
// Owns: keys, tokens, certificates and the [Authenticator] that every listener uses.
//
// Guarantees: every call passes the same check. If a right is withdrawn, the streams and the waiting reads that began
// with it end. Other running calls finish. No error contains a secret.
package auth
