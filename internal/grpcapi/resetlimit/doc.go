// Package resetlimit keeps a client from resetting streams of its connection without end.
//
// Owns: the allowance of each connection of young streams that are reset.
// Keeps: frames pass unchanged; a client that exceeds its allowance receives GOAWAY before it is cut
// off.
package resetlimit
