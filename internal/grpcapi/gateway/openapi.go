package gateway

import (
	"net/http"

	"github.com/pawl-dev/pawl/gen"
)

// OpenAPIPath is where the gateway describes itself.
const OpenAPIPath = "/openapi.json"

// serveOpenAPI answers with the generated document. It names no run and no pack
// and so takes no token.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(gen.OpenAPI)
}
