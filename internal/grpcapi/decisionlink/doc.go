// Package decisionlink lets a named person decide about one held call with a link, without an account.
//
// Owns: the signed token of a link, its page, and the HTTP handler that shows the call and accepts the
// decision.
// Keeps: a token is valid for one namespace, run, step, digest of the call and name; only POST decides; a
// token that is not authentic causes no call. ControlService decides whether a decision is accepted, as for
// every other caller.
package decisionlink
