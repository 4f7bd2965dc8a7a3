// Package audit records which principal did what. It writes one line for each call that changed data or was refused. Each line contains
// the hash of the previous line. The lines are in files that are rotated by size.
//
// It owns the files and their hash chain. Package grpcapi writes lines, the server opens the log, and the command line reads it.
// Invariants: a line is given to the operating system before its call is answered; a changed or removed line breaks the chain; no line
// contains a payload.
package audit
