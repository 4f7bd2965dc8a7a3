// Package openapi completes the OpenAPI 3.1 document of the JSON gateway. The generator protoc-gen-connect-openapi describes messages and
// paths correctly, but it does not know what the proto comments and the gateway define. Only `make generate` calls this package.
//
// Invariant: the same proto files give the same bytes, so that checkgenerate can compare.
package openapi
