package a2a

import (
	"net/http"
	"net/url"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// TenantOf is the tenant that a request over HTTP names, "" = none: by it those who have no agents know
// whose house it goes to, which reads the same. Of a request that every house refuses it may be any.
// The body may be cut off where it is longer than a house takes.
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

// tenantIn is the tenant in a request's JSON. Its field has the same name in both spellings.
func tenantIn(raw []byte) string {
	var fields struct {
		Tenant string `json:"tenant"`
	}
	if strictjson.Decode(raw, &fields, strictjson.Foreign) != nil {
		return ""
	}
	return fields.Tenant
}
