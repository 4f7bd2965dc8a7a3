// Package command has the shared parts of the commands that call a sidecar: the connection, the shell
// completion and the prefixes of ids. It also has the commands that need them most; cmd/sidecar has the
// others and builds the command tree.
package command
