package a2a

import (
	"net/http"
	"net/url"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// TenantOf returns the tenant that an HTTP request names, or "". A node that does not own the runs uses it to find the
// partition. The owner of the partition reads the tenant in the same way. For a request that every partition refuses, the
// result may be any tenant. body may be cut off at the size limit of messages.
func TenantOf(r *http.Request, body []byte) string {
	t, _ := targetOf(r.URL.EscapedPath())
	switch {
	case t.tenant != "" || t.rest == cardPath:
		return t.tenant
	case t.rest == "":
		var frame rpcRequest
		if strictjson.Decode(body, &frame, strictjson.Foreign) != nil {
			return ""
		}
		return tenantIn(frame.Params)
	case r.Method == post:
		return tenantIn(body)
	}
	in := &a2apb.ListTasksRequest{}
	if readQuery(url.Values{"tenant": r.URL.Query()["tenant"]}, in) != nil {
		return ""
	}
	return in.GetTenant()
}

// tenantIn returns the tenant in the JSON of a request. The field has the same name in camelCase and in snake_case.
func tenantIn(raw []byte) string {
	var fields struct {
		Tenant string `json:"tenant"`
	}
	if strictjson.Decode(raw, &fields, strictjson.Foreign) != nil {
		return ""
	}
	return fields.Tenant
}
