// Package resetlimit closes connections whose client resets streams again and again.
//
// Owns: the number of streams that each connection may reset soon after they were opened.
//
// Guarantees: frames are passed unchanged. A client that exceeds its limit receives a GOAWAY before its
// connection is closed.
package resetlimit
