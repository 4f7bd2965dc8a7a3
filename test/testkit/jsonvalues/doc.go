// Package jsonvalues is the one table of JSON values that tests send through every path that a
// value can take out of a call.
//
// Keeps: what the condition sees, what the digest covers, what the store keeps and what leaves the
// sidecar is one value. Otherwise the sidecar refuses the value by name where it came in.
package jsonvalues
