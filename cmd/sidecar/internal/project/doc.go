// Package project writes the small, complete projects of `pawl init`: a pack, a worker, tests
// that need no model, a README, and files for CI and containers.
package project
