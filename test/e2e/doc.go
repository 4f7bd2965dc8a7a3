// Package e2e holds the tests that run the real sidecar process: real sockets,
// real disks, real SIGKILL.
package e2e
