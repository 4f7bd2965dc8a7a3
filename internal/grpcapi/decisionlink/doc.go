// Package decisionlink lets a named person decide about one held call with a link, without an account.
//
// Owns: the signed token of a link, its page, and the HTTP handler that shows the call and takes the
// decision.
// Keeps: a token holds for one namespace, run, step, digest of the call and name; only POST decides; a
// token that is not authentic leads to no call. Whether a decision is accepted is decided by
// ControlService, as for every other caller.
package decisionlink
