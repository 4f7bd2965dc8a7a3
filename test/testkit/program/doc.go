// Package program builds the commands of this repository for tests that run them as processes.
package program
