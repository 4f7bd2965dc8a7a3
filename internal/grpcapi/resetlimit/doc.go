// Package resetlimit keeps a client from resetting streams of its connection without end.
//
// Owns: the allowance of each connection of young streams that are reset.
// Called by: grpcapi, for each connection that it accepts.
// May import: nothing of ours.
// Keeps: frames pass unchanged; a client that exceeds its allowance is told so before it is
// cut off.
package resetlimit
