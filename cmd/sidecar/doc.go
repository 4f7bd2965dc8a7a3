// Command pawl runs PromptPack agent loops durably and serves them over gRPC.
//
// It owns the command line: one file per command, its flags, its words and its exit code. A command
// parses, calls one package (server, bench, demo, export, pack) or the contract over gRPC, and
// prints through [output.Printer].
// Invariant: 0 is done, 1 a fault found or a request refused, 2 wrong usage; nothing is decided
// here that a client in another language could not do.
package main
