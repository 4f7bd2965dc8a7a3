// Package auth says who comes in: which connections there are, what proves a caller's
// name (a bearer token, a client certificate, the owner's socket), and which methods
// are his to call.
//
// It owns keys, tokens, certificates and the [Authenticator] that every listener and
// binding asks. grpcapi calls it, app reads its files with it; it may import the
// runtime's principals and secretfile. Invariant: there is one way in, rights that were
// withdrawn end what they began, and no error repeats a secret.
package auth
