// Package project writes the small, complete projects of `pawl init`: a pack (or an adapter of a
// library that makes one), a worker, tests that need no model, a README, and files for CI and containers.
package project
