// Package decisionlink lets a named person decide about one held call with a link. The person needs no
// account.
//
// Owns: the signed token of a link, its page, and the HTTP handler that shows the call and accepts the
// decision.
//
// Guarantees: a token is valid only for one namespace, run, step, digest of the call and name. Only
// POST decides. A token that is not authentic causes no call. ControlService decides whether a decision
// is accepted, as for every other caller.
package decisionlink
