// Command finish reads the generated OpenAPI document from standard input and writes the completed document to standard output. `make
// generate` runs it. The work is done in internal/openapi.
package main
