package gateway

import (
	"net/http"

	"github.com/pawl-dev/pawl/gen"
)

// OpenAPIPath is the path of the OpenAPI document of the gateway.
const OpenAPIPath = "/openapi.json"

// serveOpenAPI writes the generated document. It contains no data of runs or packs, so it needs no token.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(gen.OpenAPI)
}
