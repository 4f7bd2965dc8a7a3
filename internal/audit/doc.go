// Package audit records which principal did what: one line for each call that changed data or was refused.
// Each line is chained to the one before by a hash. The lines are in files that are rotated by size.
//
// It owns the files and their chain. Package grpcapi writes it, the server opens it, the command line reads
// it. Invariants: a line was handed to the operating system before its call is answered; a changed or removed
// line breaks the chain; no line contains a payload.
package audit
