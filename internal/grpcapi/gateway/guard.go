package gateway

import (
	"encoding/json"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// guard checks each HTTP request to the gateway before all other handlers. Requests for decision links are passed on
// unchecked, see [Config]. Without these checks, any web page that the user has open could call a JSON port on loopback
// in three ways: by a name that resolves to 127.0.0.1 (the check of Host refuses this), by a cross-origin request (the
// check of Origin refuses this), or by a form. A form cannot send application/json, so the check of the content type
// refuses it. The plugin makes this last check itself.
type guard struct {
	cfg  Config
	next http.Handler
}

// bodyMethods are the HTTP methods whose requests must have the content type of JSON, even if the body
// is empty. The reason is that a browser lets any web page send a POST without a body and without this
// content type.
var bodyMethods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// ServeHTTP refuses a request or passes it on. It answers the preflight requests of accepted origins itself.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.cfg.Links != nil && strings.HasPrefix(r.URL.Path, g.cfg.LinksPath) {
		g.cfg.Links.ServeHTTP(w, r)
		return
	}
	if refusal := g.refuse(r); refusal != nil {
		g.cfg.Refused(r.Context(), apierror.Refused(refusal))
		WriteRefusal(w, refusal)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(r, origin) {
		allowOrigin(w.Header(), origin)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	r.Body = http.MaxBytesReader(w, r.Body, g.cfg.MaxBody)
	if g.visits(r) {
		g.cfg.Plugin.ServeHTTP(w, r)
		return
	}
	g.next.ServeHTTP(w, r)
}

// visits reports whether a request is for the plugin. The plugin itself checks the type of the body.
func (g *guard) visits(r *http.Request) bool {
	return g.cfg.Plugin != nil && g.cfg.PluginMatches(r.URL.EscapedPath())
}

// refuse returns an error for a request whose host, origin or type of body is not allowed.
func (g *guard) refuse(r *http.Request) *machine.Error {
	if r.URL.Path != healthPath && r.URL.Path != readyPath && !g.hostAllowed(r.Host) {
		return &machine.Error{Code: machine.CodePermissionDenied, Reason: "HOST_NOT_ALLOWED", Field: "Host", Allowed: append([]string{"loopback names"}, g.cfg.Hosts...),
			Message: "this gateway is not known by that name; configure http_host"}
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 && !(len(origins) == 1 && (sameOrigin(r, origins[0]) || slices.Contains(g.cfg.Origins, origins[0]))) {
		return &machine.Error{Code: machine.CodePermissionDenied, Reason: "ORIGIN_NOT_ALLOWED", Field: "Origin", Allowed: g.cfg.Origins,
			Message: "pages of that origin may not call this gateway; configure http_origin"}
	}
	if types := r.Header.Values("Content-Type"); !g.visits(r) && slices.Contains(bodyMethods, r.Method) && (len(types) != 1 || !isJSON(types[0])) {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "CONTENT_TYPE", Field: "Content-Type", Allowed: []string{"application/json"},
			Message: "the body has to be JSON and say so"}
	}
	return refuseText(r)
}

// refuseText returns an error if a request contains text that cannot be a protobuf string or a gRPC
// header.
func refuseText(r *http.Request) *machine.Error {
	query, err := url.QueryUnescape(r.URL.RawQuery)
	for _, part := range []struct {
		field string
		ok    bool
	}{
		{"(path)", utf8.ValidString(r.URL.Path)},
		{"(query)", err == nil && utf8.ValidString(query)},
		{"Authorization", auth.Printable(r.Header.Get("Authorization"))},
		{"Last-Event-ID", auth.Printable(r.Header.Get("Last-Event-ID"))},
	} {
		if !part.ok {
			return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "MALFORMED_MESSAGE", Field: part.field,
				Message: "want UTF-8 in paths and queries, printable ASCII in headers"}
		}
	}
	return nil
}

// sameOrigin reports whether the calling page was served by this gateway, under the same host name as
// the request. hostAllowed must have accepted this name before.
func sameOrigin(r *http.Request, origin string) bool {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return strings.EqualFold(origin, scheme+r.Host)
}

func (g *guard) hostAllowed(hostport string) bool { return HostNamed(hostport, g.cfg.Hosts) }

// HostNamed reports whether a Host header is localhost, a loopback address or one of the given names.
func HostNamed(hostport string, names []string) bool {
	host := hostOf(hostport)
	if ip := net.ParseIP(host); strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(names, func(allowed string) bool {
		return strings.EqualFold(allowed, hostport) || strings.EqualFold(allowed, host)
	})
}

// IsAddress reports whether a Host header is an IP address. An attacker cannot make a name resolve to
// this host in that case.
func IsAddress(hostport string) bool { return net.ParseIP(hostOf(hostport)) != nil }

func hostOf(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.Trim(host, "[]")
}

func isJSON(contentType string) bool {
	kind, params, err := mime.ParseMediaType(contentType)
	charset, set := params["charset"]
	return err == nil && kind == "application/json" && (!set || strings.EqualFold(charset, "utf-8"))
}

// allowOrigin sets the headers that allow a browser to read the answer. The origin must be an accepted
// one.
func allowOrigin(h http.Header, origin string) {
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID, A2A-Version, A2A-Extensions, Idempotency-Key, Mcp-Protocol-Version, Mcp-Method, Mcp-Name")
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Expose-Headers", "A2A-Extensions, ETag, Retry-After, WWW-Authenticate")
	h.Set("Access-Control-Max-Age", "600")
}

// WriteRefusal answers a request that did not reach the gRPC server. The answer has the same form as
// all other errors.
func WriteRefusal(w http.ResponseWriter, refusal *machine.Error) {
	st := apierror.Refused(refusal)
	code := HTTPStatus(st)
	if refusal.Reason == "CONTENT_TYPE" {
		code = http.StatusUnsupportedMediaType
	}
	WriteStatus(w, st, code)
}

// WriteStatus writes a google.rpc.Status as ProtoJSON.
func WriteStatus(w http.ResponseWriter, st *status.Status, code int) {
	body, err := protojson.Marshal(st.Proto())
	if err != nil {
		body, _ = json.Marshal(map[string]any{"code": st.Code(), "message": st.Message()})
	}
	retryAfter(w.Header(), st)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(code)
	//nolint:gosec // JSON, said to be JSON, with nosniff: no browser takes it for a page.
	_, _ = w.Write(body)
}

// ValidOrigin reports whether s has the form scheme://host[:port], which browsers send.
func ValidOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == s
}

// ValidHost reports whether s is a host with or without a port.
func ValidHost(s string) bool {
	u, err := url.Parse("//" + s)
	return err == nil && u.Host == s && u.Hostname() != ""
}
