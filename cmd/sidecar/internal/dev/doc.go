// Package dev is `pawl dev`: a sidecar in this process, the packs of a directory registered
// again when they are saved, and the app started again when one of its files changes.
package dev
