// Package leases owns what `validate` says of the agents of a pack: what the first delegation to
// each is leased of the run's bounds. Only cmd/sidecar calls it; it may import packs, the
// machine and its rules, and the printer. Invariant: the figures are the machine's own.
package leases
