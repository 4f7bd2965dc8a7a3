// Package e2e tests the real sidecar process: with real sockets, real disks and real SIGKILL.
package e2e
