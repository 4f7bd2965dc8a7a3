// Package archtest holds tests of what no single package can promise: which
// package may import which, what pure packages may call, that no room is too large,
// no function too long and no circle there, that each package says at its door what
// it is, and that the wire contract and the vendored files are what they say.
//
// It has no other code and nobody imports it. Each of its rules has a test that
// breaks it.
package archtest
