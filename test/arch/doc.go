// Package arch tests what no single package can promise: which way imports go, what pure
// packages may call, who creates rights, and that the contract, the vendored files and the
// packaging are what they say.
//
// It has no other code. Each of its rules has a test that breaks it.
package arch
