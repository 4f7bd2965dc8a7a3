package a2a_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/gowebpki/jcs"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a"
)

const wellKnown = "/.well-known/agent-card.json"

func (r *rig) card(path string) *a2apb.AgentCard {
	r.t.Helper()
	got := r.http("GET", path+wellKnown, "")
	if got.status != http.StatusOK {
		r.t.Fatalf("%s: %s", path, got)
	}
	card := &a2apb.AgentCard{}
	if err := protojson.Unmarshal(got.body, card); err != nil {
		r.t.Fatal(err)
	}
	return card
}

// TestCard: the card of a member describes its prompt, and names the addresses of the server and the
// authentication that it requires. The root has the card of the entry agent.
func TestCard(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	card := r.card("/a2a/crew/writer")
	if card.GetName() != "Writer" || card.GetDescription() != "Writes what it is told." || card.GetVersion() != "2.0.0" {
		t.Errorf("the card is %v", card)
	}
	if len(card.GetSkills()) != 1 || card.GetSkills()[0].GetId() != "writer" || card.GetSkills()[0].GetTags()[0] != "text" {
		t.Errorf("skills %v", card.GetSkills())
	}
	base := "http://" + r.named.HTTP + "/a2a/crew/writer"
	want := [][4]string{{base, "JSONRPC", "1.0", ""}, {base, "HTTP+JSON", "1.0", ""}, {r.named.GRPC, "GRPC", "1.0", "crew/writer"}}
	for i, in := range card.GetSupportedInterfaces() {
		if got := [4]string{in.GetUrl(), in.GetProtocolBinding(), in.GetProtocolVersion(), in.GetTenant()}; got != want[i] {
			t.Errorf("interface %v, want %v", got, want[i])
		}
	}
	caps := card.GetCapabilities()
	if !caps.GetStreaming() || caps.GetExtendedAgentCard() || len(caps.GetExtensions()) != 3 || len(card.GetSecuritySchemes()) != 0 {
		t.Errorf("capabilities %v, schemes %v", caps, card.GetSecuritySchemes())
	}
	if root := r.card(""); root.GetName() != "Writer" {
		t.Errorf("at the root: %v", root)
	}
	painter := r.card("/a2a/crew/painter")
	if painter.GetSkills()[0].GetDescription() != "Paints." || painter.GetDefaultInputModes()[1] != "image/*" || painter.GetDefaultOutputModes()[0] != "image/png" || painter.GetSkills()[0].GetTags()[0] != "crew" {
		t.Errorf("the painter's card is %v", painter)
	}
	if reviewer := r.card("/a2a/crew@1.2.0/reviewer"); reviewer.GetName() != "Reviewer" {
		t.Errorf("a state's agent has the card of its prompt: %v", reviewer)
	}
}

// TestCardIsCached: a card that did not change is not sent again.
func TestCardIsCached(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got := r.http("GET", wellKnown, "")
	tag, modified := got.header.Get("ETag"), got.header.Get("Last-Modified")
	if tag == "" || modified == "" || !strings.Contains(got.header.Get("Cache-Control"), "max-age") || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", got.header)
	}
	for _, c := range []struct {
		header, value string
		want          int
	}{
		{"If-None-Match", tag, 304}, {"If-None-Match", `"other"`, 200}, {"If-Modified-Since", modified, 304},
		{"If-Modified-Since", "Mon, 01 Jan 2001 00:00:00 GMT", 200},
	} {
		if again := r.http("GET", wellKnown, "", c.header, c.value); again.status != c.want {
			t.Errorf("%s %s: %d, want %d", c.header, c.value, again.status, c.want)
		}
	}
	if head := r.http("HEAD", wellKnown, ""); head.status != 200 || len(head.body) != 0 || head.header.Get("ETag") != tag {
		t.Errorf("HEAD: %s", head)
	}
	if other := r.http("GET", "/a2a/crew/painter"+wellKnown, ""); other.header.Get("ETag") == tag {
		t.Error("two cards have one tag")
	}
}

// TestPublicAddresses: cards have the addresses that the operator configures, not those that are bound.
func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.config.A2AURL = "https://agents.example/pawl/" })
	card := r.card("")
	port := r.named.GRPC[strings.LastIndexByte(r.named.GRPC, ':'):]
	if got := card.GetSupportedInterfaces(); got[0].GetUrl() != "https://agents.example/pawl/a2a/crew/writer" || got[2].GetUrl() != "agents.example"+port {
		t.Errorf("interfaces %v", got)
	}
	r = newRig(t, func(r *rig) { r.config.A2AGRPC, r.config.A2ARoot = "grpc.example:443", "crew/painter" })
	card = r.card("")
	if got := card.GetSupportedInterfaces(); got[2].GetUrl() != "grpc.example:443" || card.GetName() != "Painter" {
		t.Errorf("card %v", card)
	}
}

// TestExtendedCard: a caller that may use the agent receives a card with the agent's variables. The public
// card says that there is such a card.
func TestExtendedCard(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	public := r.card("/a2a/crew/painter")
	if !public.GetCapabilities().GetExtendedAgentCard() || public.GetSecuritySchemes()["bearer"].GetHttpAuthSecurityScheme().GetScheme() != "Bearer" || len(public.GetSecurityRequirements()) != 1 {
		t.Errorf("the public card is %v", public)
	}
	card, err := r.client.GetExtendedAgentCard(r.context(bob), &a2apb.GetExtendedAgentCardRequest{Tenant: "crew/painter"})
	if err != nil {
		t.Fatal(err)
	}
	extensions := card.GetCapabilities().GetExtensions()
	params := extensions[len(extensions)-1].GetParams().AsMap()
	variables, _ := json.Marshal(params["variables"])
	if params["pack"] != "crew" || string(variables) != `[{"default":"oil","name":"style","required":false,"type":"string"},{"description":"What to paint.","name":"subject","required":true,"type":"string"}]` {
		t.Errorf("params %v", params)
	}
	if got := r.http("GET", "/a2a/crew/painter/extendedAgentCard", ""); got.status != 401 {
		t.Errorf("without a token: %s", got)
	}
}

// writeKey writes a private key for a sidecar.
func writeKey(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSignedCard: an independent library verifies the signature over the RFC 8785 form of the card without
// its signatures. The signature is valid for nothing else.
func TestSignedCard(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ec)
	path := writeKey(t, "PRIVATE KEY", der, err)
	r := newRig(t, func(r *rig) { r.config.A2ACardKey = path })
	got := r.http("GET", wellKnown, "")
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(got.body, &fields); err != nil {
		t.Fatal(err)
	}
	var signatures []struct{ Protected, Signature string }
	if err := json.Unmarshal(fields["signatures"], &signatures); err != nil || len(signatures) != 1 {
		t.Fatalf("signatures %s", fields["signatures"])
	}
	delete(fields, "signatures")
	verify := func() error {
		plain, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := jcs.Transform(plain)
		if err != nil {
			t.Fatal(err)
		}
		compact := signatures[0].Protected + "." + base64.RawURLEncoding.EncodeToString(payload) + "." + signatures[0].Signature
		signed, err := jose.ParseSignedCompact(compact, []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Fatal(err)
		}
		header := signed.Signatures[0].Protected
		if header.Algorithm != "ES256" || header.KeyID == "" || header.ExtraHeaders["typ"] != "JOSE" {
			t.Errorf("protected header %+v", header)
		}
		_, err = signed.Verify(ec.Public())
		return err
	}
	if err := verify(); err != nil {
		t.Errorf("the card does not verify: %v", err)
	}
	fields["name"] = json.RawMessage(`"Someone else"`)
	if verify() == nil {
		t.Error("another card verifies")
	}
	if again := r.http("GET", wellKnown, "", "If-None-Match", got.header.Get("ETag")); again.status != 304 {
		t.Errorf("a signed card is not cached: %d", again.status)
	}
}

// TestReadCardKey: keys of each kind are read, weak and foreign ones are refused.
func TestReadCardKey(t *testing.T) {
	t.Parallel()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edDER, err := x509.MarshalPKCS8PrivateKey(ed)
	good := []string{writeKey(t, "PRIVATE KEY", edDER, err)}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalECPrivateKey(p384)
	good = append(good, writeKey(t, "EC PRIVATE KEY", ecDER, err))
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good = append(good, writeKey(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(strong), nil))
	for _, path := range good {
		if key, err := a2a.ReadCardKey(path); err != nil || key.ID == "" || !key.Public.IsPublic() {
			t.Errorf("%s: %v, %v", path, key, err)
		}
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weakDER, err := x509.MarshalPKCS8PrivateKey(p224)
	for _, path := range []string{
		"testdata/agents.yaml", "testdata/nothing", writeKey(t, "PRIVATE KEY", []byte("x"), nil),
		writeKey(t, "PRIVATE KEY", weakDER, err), writeKey(t, "CERTIFICATE", ecDER, nil),
	} {
		if _, err := a2a.ReadCardKey(path); err == nil {
			t.Errorf("%s was taken", path)
		}
	}
}

// TestCardOfANamespace: no cache keeps a card that requires a right, nor a refusal of it. The addresses in
// the card lead to the agent's namespace, also to the default one, and do not depend on the caller's
// namespace.
func TestCardOfANamespace(t *testing.T) {
	t.Parallel()
	const secret = "secret-of-ann-0123456789"
	r := newRig(t, withTokens, func(r *rig) {
		r.config.Namespaces = []string{"red"}
		line := fmt.Sprintf("\nann runs:read,runs:write@red,default sha256:%x", sha256.Sum256([]byte(secret)))
		file, err := os.OpenFile(r.config.TokensFile, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = file.WriteString(line)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			r.t.Fatal(err)
		}
	})
	got := r.http("GET", "/a2a/default:crew/writer"+wellKnown, "", "Authorization", "Bearer "+secret)
	if got.status != 200 || got.header.Get("Cache-Control") != "private, no-store" {
		t.Errorf("%v, headers %v", got, got.header)
	}
	var card struct {
		SupportedInterfaces []struct{ URL, Tenant string }
	}
	if err := json.Unmarshal(got.body, &card); err != nil {
		t.Fatal(err)
	}
	if len(card.SupportedInterfaces) != 3 {
		t.Fatalf("%s", got)
	}
	for _, at := range card.SupportedInterfaces {
		if !strings.HasSuffix(at.URL, "/a2a/default:crew/writer") && at.Tenant != "default:crew/writer" {
			t.Errorf("%v does not lead to default", at)
		}
	}
	followed := r.http("GET", strings.TrimPrefix(card.SupportedInterfaces[0].URL, "http://"+r.named.HTTP)+"/tasks", "", "Authorization", "Bearer "+secret)
	if followed.status != 200 {
		t.Errorf("followed: %v", followed)
	}
	for path, want := range map[string]string{
		"/a2a/crew/writer": "public", "/a2a/default:crew/writer": "no-store", "/a2a/crew/nobody": "no-store",
	} {
		if got := r.http("GET", path+wellKnown, ""); !strings.Contains(got.header.Get("Cache-Control"), want) {
			t.Errorf("%s for nobody: %d, headers %v", path, got.status, got.header)
		}
	}
}
