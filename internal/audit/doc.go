// Package audit keeps who did what: one line for each call that changed something or was
// refused, each chained to the one before by a hash, in files that are turned over by size.
//
// It owns the files and their chain. grpcapi writes it, app opens it, the command line
// reads it; it imports nothing of ours. Invariants: a line was handed to the operating
// system before the call that it is about is answered; no line is changed or taken out
// without the chain telling; no line has a payload.
package audit
