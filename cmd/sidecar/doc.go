// Command pawl runs PromptPack agent loops durably and serves them over gRPC.
//
// It owns the command line: one file per command, with its flags, texts and exit codes. A command
// parses its arguments, calls one package (server, demo, export, pack) or an RPC, and prints
// through [output.Printer].
// Two rules hold. The exit code is 0 for success, 1 for a fault or a refused request, 2 for wrong usage.
// A command has no logic that a client in another language could not have.
package main
