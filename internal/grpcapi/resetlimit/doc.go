// Package resetlimit closes connections whose client resets streams again and again.
//
// Owns: the allowance of each connection for streams that are reset soon after they were opened.
// Keeps: frames pass unchanged; a client that exceeds its allowance gets GOAWAY before its connection is
// closed.
package resetlimit
