// Command finish reads the generated OpenAPI document from standard input and writes
// the finished one to standard output. `make generate` runs it; all that it does is in
// internal/openapi.
package main
