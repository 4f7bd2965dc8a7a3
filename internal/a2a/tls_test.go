package a2a_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/config"
)

// authority signs certificates for loopback.
type authority struct {
	t    testing.TB
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	a.key, a.cert = a.issue("authority", nil)
	a.pool.AddCert(a.cert)
	return a
}

// issue makes a certificate; the first one signs itself.
func (a *authority) issue(name string, parent *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer := a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		a.path(name + ".pem"): {Type: "CERTIFICATE", Bytes: der}, a.path(name + ".key"): {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return key, cert
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// config is a client's; "" shows no certificate.
func (a *authority) config(name string) *tls.Config {
	conf := &tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS12}
	if name != "" {
		cert, err := tls.LoadX509KeyPair(a.path(name+".pem"), a.path(name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf
}

// serve makes a rig speak TLS.
func (a *authority) serve(r *rig) {
	a.issue("server", a.cert)
	r.config.TLSCert, r.config.TLSKey = a.path("server.pem"), a.path("server.key")
	a.call(r, "")
}

// call makes the rig's clients hold a certificate.
func (a *authority) call(r *rig, name string) {
	r.creds = grpc.WithTransportCredentials(credentials.NewTLS(a.config(name)))
	r.web = &http.Client{Transport: &http.Transport{TLSClientConfig: a.config(name)}}
}

// withTLS makes the rig speak TLS with a certificate of its own for loopback.
func withTLS(r *rig) {
	a := newAuthority(r.t)
	a.serve(r)
	r.authority = a.path("authority.pem")
}

// withCertificates makes a rig ask each caller for a certificate, and be called by one.
func (a *authority) withCertificates(caller string) func(*rig) {
	return func(r *rig) {
		a.serve(r)
		r.config.TLSClientCA, r.config.CertificatesFile = a.path("authority.pem"), a.path("rights")
		if err := os.WriteFile(r.config.CertificatesFile, []byte("* runs:read,runs:write,packs:write,work\n"), 0o600); err != nil {
			a.t.Fatal(err)
		}
		a.call(r, caller)
	}
}

// TestTLS: with certificates both ports speak TLS, and the card says so.
func TestTLS(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTLS)
	if task := r.send(r.context(""), message("crew/writer", "hello")); task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("over gRPC: %v", task)
	}
	if got := r.http("POST", "/a2a/crew/writer", rpc("SendMessage", hello)); !strings.Contains(string(got.body), "TASK_STATE_COMPLETED") {
		t.Errorf("over JSON-RPC: %s", got)
	}
	card := r.card("/a2a/crew/writer")
	if got := card.GetSupportedInterfaces()[0].GetUrl(); got != "https://"+r.named.HTTP+"/a2a/crew/writer" {
		t.Errorf("the card names %s", got)
	}
}

// TestClientCertificates: the holder of a certificate is the same caller on every
// binding, and another one is not.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue(alice, a.cert)
	a.issue(bob, a.cert)
	r := newRig(t, a.withCertificates(alice))
	task := r.send(r.context(""), message("crew/writer", "ask mine?"))
	if got := r.http("GET", "/a2a/crew/writer/tasks/"+task.GetId(), ""); got.status != http.StatusOK {
		t.Errorf("the same caller over HTTP: %s", got)
	}
	card := r.card("/a2a/crew/writer")
	if card.GetSecuritySchemes()["mtls"].GetMtlsSecurityScheme() == nil || !card.GetCapabilities().GetExtendedAgentCard() {
		t.Errorf("the card is %v", card)
	}
	a.call(r, bob)
	if got := r.http("GET", "/a2a/crew/writer/tasks/"+task.GetId(), ""); got.status != http.StatusNotFound {
		t.Errorf("another caller over HTTP: %s", got)
	}
	_, err := a2apb.NewA2AServiceClient(r.dial()).GetTask(r.context(""), &a2apb.GetTaskRequest{Tenant: "crew/writer", Id: task.GetId()})
	if status.Code(err) != codes.NotFound {
		t.Errorf("another caller over gRPC: %v", err)
	}
}

// cardOver serves an agent's card with one of its interfaces, to holders of certificates.
func (a *authority) cardOver(r *rig, agent, binding string) string {
	a.t.Helper()
	card := r.card("/a2a/" + agent)
	card.SupportedInterfaces = slices.DeleteFunc(card.GetSupportedInterfaces(), func(i *a2apb.AgentInterface) bool { return i.GetProtocolBinding() != binding })
	raw, err := protojson.Marshal(card)
	if err != nil || len(card.GetSupportedInterfaces()) != 1 {
		a.t.Fatal(card, err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(raw)
	}))
	s.TLS = a.config("server")
	s.TLS.ClientCAs, s.TLS.ClientAuth = a.pool, tls.RequireAndVerifyClientCert
	s.StartTLS()
	a.t.Cleanup(s.Close)
	return s.URL + "/card.json"
}

// TestAgentCertificates: a sidecar shows another one the certificate that is configured
// for the agent, on each binding and for the card, and is who that names.
func TestAgentCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue(alice, a.cert)
	a.issue(bob, a.cert)
	remote := newRig(t, a.withCertificates(alice))
	for i, binding := range []string{"GRPC", "JSONRPC", "HTTP+JSON"} {
		card := a.cardOver(remote, "crew/painter", binding)
		near := newRig(t, func(r *rig) {
			r.config.AllowTools = []string{"*"}
			r.config.Agents = map[string]config.Agent{"crew/painter": {
				Card: card, CA: a.path("authority.pem"), Cert: a.path(bob + ".pem"), Key: a.path(bob + ".key"),
			}}
		})
		task := near.send(near.context(""), message("crew/reviewer", "delegate a boat"))
		if said := task.GetStatus().GetMessage().GetParts(); len(said) != 1 || !strings.Contains(said[0].GetText(), "Paint a boat in oil.") {
			t.Errorf("%s: the lead says %v", binding, task)
		}
		for name, want := range map[string]int{bob: i + 1, alice: 0} {
			a.call(remote, name)
			list, err := a2apb.NewA2AServiceClient(remote.dial()).ListTasks(remote.context(""), &a2apb.ListTasksRequest{Tenant: "crew/painter"})
			if err != nil || len(list.GetTasks()) != want {
				t.Errorf("%s: %s has the tasks %v, %v", binding, name, list, err)
			}
		}
	}
}
