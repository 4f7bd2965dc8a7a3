package transport_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/cluster/transport"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/encoded"
)

// outsider makes a certificate that says of itself what a node's says.
func outsider(t *testing.T) tls.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	like := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pawl node"}, NotAfter: time.Now().Add(time.Hour)}
	der := must(x509.CreateCertificate(rand.Reader, like, like, key.Public(), key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestAStrangerGetsNothing: without a certificate, with another one, without TLS, with an older
// TLS, by gRPC or by HTTP, the port fails the handshake and says no word.
func TestAStrangerGetsNothing(t *testing.T) {
	t.Parallel()
	c := newTown()
	n := c.node(t, "a")
	home := newHouse()
	n.reign(home)
	for name, conf := range map[string]*tls.Config{
		"no certificate": {}, "another certificate": {Certificates: []tls.Certificate{outsider(t)}},
		"an older TLS": {MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{outsider(t)}},
	} {
		conf.InsecureSkipVerify = true
		t.Run(name+" over gRPC", func(t *testing.T) {
			conn := must(grpc.NewClient(n.self.Address, grpc.WithTransportCredentials(credentials.NewTLS(conf))))(t)
			defer func() { _ = conn.Close() }()
			forged := metadata.AppendToOutgoingContext(within(t), "pawl-caller-bin", `{"Name":"admin"}`)
			if _, err := pawlv1.NewRunServiceClient(conn).GetRun(forged, &pawlv1.GetRunRequest{}); status.Code(err) != codes.Unavailable || reasonOf(err) != "" {
				t.Errorf("got %v", err)
			}
			if err := conn.Invoke(forged, "/pawl.cluster.Nudges/Nudge", &pawlv1.GetRunRequest{}, &pawlv1.GetRunResponse{}); status.Code(err) != codes.Unavailable {
				t.Errorf("a nudge got %v", err)
			}
		})
		t.Run(name+" over HTTP", func(t *testing.T) {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
			req := must(http.NewRequestWithContext(within(t), http.MethodGet, "https://"+n.self.Address+"/a2a/p/a", http.NoBody))(t)
			req.Header.Set("Pawl-Caller", "e30=")
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close()
				t.Errorf("got %d", resp.StatusCode)
			}
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		conn := must(grpc.NewClient(n.self.Address, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		defer func() { _ = conn.Close() }()
		if _, err := pawlv1.NewRunServiceClient(conn).GetRun(within(t), &pawlv1.GetRunRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	})
	if len(home.seen()) != 0 || len(n.nudged) != 0 {
		t.Errorf("came: %+v", home.seen())
	}
}

// TestANodeWhoseRowIsGone is a stranger: what it has open is refused, and it gets nothing new.
func TestANodeWhoseRowIsGone(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, other := c.node(t, "a"), c.patient(t, "b", 200*time.Millisecond)
	home := newHouse()
	owner.reign(home)
	client := pawlv1.NewRunServiceClient(other.conn)
	_ = must(client.GetRun(within(t), &pawlv1.GetRunRequest{}))(t)
	resp := must(other.ask(within(t), http.MethodGet, "/a2a/p/a", ""))(t)
	_ = resp.Body.Close()
	before := len(home.seen())
	c.enroll(other.key.Key, false)
	if _, err := client.GetRun(within(t), &pawlv1.GetRunRequest{}); reasonOf(err) != "NO_OWNER" {
		t.Errorf("a call got %v", err)
	}
	if _, err := must(client.ExportRun(within(t), &pawlv1.ExportRunRequest{}))(t).Recv(); reasonOf(err) != "NO_OWNER" {
		t.Errorf("a stream got %v", err)
	}
	resp = must(other.ask(within(t), http.MethodGet, "/a2a/p/a", ""))(t)
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a request got %d", resp.StatusCode)
	}
	anew := transport.NewClients(other.key, view{c, "b"})
	defer func() { _ = anew.Close() }()
	_, err := anew.Call(within(t), owner.self, 0, pawlv1.RunService_GetRun_FullMethodName, &pawlv1.GetRunRequest{})
	if _, unsent := errors.AsType[*router.Unsent](err); !unsent {
		t.Errorf("a new connection got %v", err)
	}
	if got := len(home.seen()); got != before {
		t.Errorf("%d calls came", got-before)
	}
	c.enroll(other.key.Key, true)
	_ = must(client.GetRun(within(t), &pawlv1.GetRunRequest{}))(t)
}

// TestAnAddressIsNoProof: who answers at the address of the owner with another certificate, which
// is even a node's, is sent nothing.
func TestAnAddressIsNoProof(t *testing.T) {
	t.Parallel()
	c := newTown()
	imposter, other := c.node(t, "a"), c.patient(t, "b", 200*time.Millisecond)
	home := newHouse()
	imposter.seat().Attach(home)
	claimed := imposter.self
	claimed.ID, claimed.Key = "c", must(transport.NewIdentity())(t).Key
	c.elect(claimed)
	if _, err := pawlv1.NewRunServiceClient(other.conn).GetRun(within(t), &pawlv1.GetRunRequest{}); reasonOf(err) != "NO_OWNER" {
		t.Errorf("got %v", err)
	}
	resp := must(other.ask(within(t), http.MethodPost, "/a2a/p/a", "{}"))(t)
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a request got %d", resp.StatusCode)
	}
	if len(home.seen()) != 0 {
		t.Errorf("came: %+v", home.seen())
	}
}

// TestTheSlowKeepNobodyOut: who connects and proves nothing has a bounded time, and of too many
// the oldest goes.
func TestTheSlowKeepNobodyOut(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, other := c.node(t, "a"), c.node(t, "b")
	owner.reign(newHouse())
	var conns []net.Conn
	for range 200 {
		conn := must(net.Dial("tcp", owner.self.Address))(t)
		defer func() { _ = conn.Close() }()
		conns = append(conns, conn)
	}
	ctx, cancel := context.WithTimeout(within(t), 2*time.Second)
	defer cancel()
	if _, err := pawlv1.NewRunServiceClient(other.conn).GetRun(ctx, &pawlv1.GetRunRequest{}); err != nil {
		t.Error(err)
	}
	for i, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); err == nil || n > 0 {
			t.Fatalf("connection %d got %d bytes, %v", i, n, err)
		} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Fatalf("connection %d is open still", i)
		}
	}
}

// TestNudge reaches a node at once.
func TestNudge(t *testing.T) {
	t.Parallel()
	c := newTown()
	a, b := c.node(t, "a"), c.node(t, "b")
	if err := a.clients.NotifyPeer(within(t), b.self); err != nil {
		t.Fatal(err)
	}
	<-b.nudged
	c.enroll(a.key.Key, false)
	if err := a.clients.NotifyPeer(within(t), b.self); err == nil || len(b.nudged) > 0 {
		t.Errorf("a stranger's nudge got %v", err)
	}
}

// TestANodeThatHangsIsLeft: its calls that may be made again are, soon after another node has the
// store, though it never answers.
func TestANodeThatHangsIsLeft(t *testing.T) {
	t.Parallel()
	c := newTown()
	stopped, next, other := c.node(t, "a"), c.node(t, "b"), c.node(t, "c")
	hangs := newHouse()
	over := make(chan struct{})
	defer close(over)
	hangs.unary = func(context.Context, string, any) (any, error) {
		<-over
		return nil, nil
	}
	hangs.serve = func(http.ResponseWriter, *http.Request) { <-over }
	stopped.reign(hangs)
	client := pawlv1.NewRunServiceClient(other.conn)
	read, sent, asked := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := client.GetRun(within(t), &pawlv1.GetRunRequest{})
		read <- err
	}()
	go func() {
		_, err := client.EmitEvent(within(t), &pawlv1.EmitEventRequest{})
		sent <- err
	}()
	go func() {
		resp, err := other.ask(within(t), http.MethodGet, "/a2a/p/a", "")
		if err == nil {
			_ = resp.Body.Close()
		}
		asked <- err
	}()
	eventually(t, "three calls", func() bool { return stopped.seat().InFlight() == 3 })
	next.reign(newHouse())
	if err := <-read; err != nil {
		t.Errorf("what reads: %v", err)
	}
	if err := <-sent; reasonOf(err) != "COMMIT_UNKNOWN" {
		t.Errorf("what changes: %v", err)
	}
	if err := <-asked; err != nil {
		t.Errorf("over HTTP: %v", err)
	}
}

// TestAnOperationOfANewerVersion is refused by its name, and not with the end of a stream: nothing
// of it was begun.
func TestAnOperationOfANewerVersion(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, newer := c.node(t, "a"), c.node(t, "b")
	home := newHouse()
	owner.reign(home)
	refused := func(err error) {
		t.Helper()
		if st := status.Convert(err); st.Code() != codes.Unimplemented || reasonOf(err) != "OPERATION_UNKNOWN" || !strings.Contains(st.Message(), "/Later") {
			t.Errorf("got %v", err)
		}
	}
	for _, method := range []string{"/pawl.v1.RunService/Later", "/pawl.v2.RunService/Later"} {
		_, err := newer.clients.Call(auth.WithCaller(within(t), alice), owner.self, 0, method, &pawlv1.GetRunRequest{RunId: "x"})
		refused(err)
		stream, err := newer.clients.Stream(auth.WithCaller(within(t), alice), owner.self, 0, method)
		if err == nil {
			err = stream.RecvMsg(new(encoded.Message))
		}
		refused(err)
	}
	if got := home.seen(); len(got) > 0 {
		t.Errorf("%v came", got)
	}
}
