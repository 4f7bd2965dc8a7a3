// Package archtest holds tests of what no single package can promise: which
// package may import which, what pure packages may call, and that the wire
// contract and the vendored files are what they say. It has no other code.
package archtest
