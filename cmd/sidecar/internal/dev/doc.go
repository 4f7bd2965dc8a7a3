// Package dev is the command `pawl dev`. It runs a sidecar in this process, registers the packs of a directory again when they are saved,
// and restarts the app when one of its files changes.
package dev
