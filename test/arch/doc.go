// Package arch tests what no single package can promise: which packages import which, what pure
// packages may call, which code creates rights, and that the contract, the vendored files and the
// packaging are what they claim to be.
//
// The package has tests only. Each of its rules has a test that breaks the rule.
package arch
