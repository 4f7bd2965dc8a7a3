// Package command is what the commands that talk to a sidecar share: how they reach it, what
// the shell completes, and beginnings of ids. Commands of one noun are packages below it;
// cmd/sidecar has the others and puts all together.
package command
