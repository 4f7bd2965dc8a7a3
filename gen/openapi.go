package gen

import _ "embed"

// OpenAPI is the OpenAPI 3.1 description of the JSON gateway, generated from the
// proto files.
//
//go:embed openapi/pawl.openapi.json
var OpenAPI []byte
