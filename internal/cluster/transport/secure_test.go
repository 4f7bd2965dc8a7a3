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
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
)

// forgedCertificate returns a certificate with the name that the certificate of a node has.
func forgedCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	like := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pawl node"}, NotAfter: time.Now().Add(time.Hour)}
	der := must(x509.CreateCertificate(rand.Reader, like, like, key.Public(), key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestAStrangerGetsNothing: the port fails the handshake of an unknown peer and sends it no data: without a
// certificate, with another certificate, without TLS or with an older TLS, over gRPC and over HTTP.
func TestAStrangerGetsNothing(t *testing.T) {
	t.Parallel()
	c := newTown()
	n := c.node(t, "a")
	home := newHouse()
	n.ownPartitions(home)
	for name, conf := range map[string]*tls.Config{
		"no certificate": {}, "another certificate": {Certificates: []tls.Certificate{forgedCertificate(t)}},
		"an older TLS": {MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{forgedCertificate(t)}},
	} {
		conf.InsecureSkipVerify = true
		t.Run(name+" over gRPC", func(t *testing.T) {
			conn := must(grpc.NewClient(n.self.Address, grpc.WithTransportCredentials(credentials.NewTLS(conf))))(t)
			defer func() { _ = conn.Close() }()
			forged := metadata.AppendToOutgoingContext(testContext(t), "pawl-caller-bin", `{"Name":"admin"}`)
			if _, err := pawlv1.NewRunServiceClient(conn).GetRun(forged, &pawlv1.GetRunRequest{}); status.Code(err) != codes.Unavailable || reasonOf(err) != "" {
				t.Errorf("got %v", err)
			}
			if err := conn.Invoke(forged, "/pawl.cluster.Nudges/Nudge", &pawlv1.GetRunRequest{}, &pawlv1.GetRunResponse{}); status.Code(err) != codes.Unavailable {
				t.Errorf("a nudge got %v", err)
			}
		})
		t.Run(name+" over HTTP", func(t *testing.T) {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
			req := must(http.NewRequestWithContext(testContext(t), http.MethodGet, "https://"+n.self.Address+"/a2a/p/a", http.NoBody))(t)
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
		if _, err := pawlv1.NewRunServiceClient(conn).GetRun(testContext(t), &pawlv1.GetRunRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	})
	if len(home.receivedCalls()) != 0 || len(n.polled) != 0 {
		t.Errorf("came: %+v", home.receivedCalls())
	}
}

// TestANodeWhoseRowIsGone: a node without a row counts as an unknown peer. Calls on its open connections
// are refused, and its new connections fail.
func TestANodeWhoseRowIsGone(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, other := c.node(t, "a"), c.addMember(t, "b", 200*time.Millisecond)
	home := newHouse()
	owner.ownPartitions(home)
	client := pawlv1.NewRunServiceClient(other.conn)
	_ = must(client.GetRun(testContext(t), &pawlv1.GetRunRequest{}))(t)
	resp := must(other.ask(testContext(t), http.MethodGet, "/a2a/p/a", ""))(t)
	_ = resp.Body.Close()
	before := len(home.receivedCalls())
	c.enroll(other.key.Key, false)
	if _, err := client.GetRun(testContext(t), &pawlv1.GetRunRequest{}); reasonOf(err) != "NO_OWNER" {
		t.Errorf("a call got %v", err)
	}
	if _, err := must(client.ExportRun(testContext(t), &pawlv1.ExportRunRequest{}))(t).Recv(); reasonOf(err) != "NO_OWNER" {
		t.Errorf("a stream got %v", err)
	}
	resp = must(other.ask(testContext(t), http.MethodGet, "/a2a/p/a", ""))(t)
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a request got %d", resp.StatusCode)
	}
	anew := transport.NewClients(other.key, view{c, "b"})
	defer func() { _ = anew.Close() }()
	_, err := anew.Call(testContext(t), owner.self, 0, pawlv1.RunService_GetRun_FullMethodName, &pawlv1.GetRunRequest{})
	if _, unsent := errors.AsType[*router.Unsent](err); !unsent {
		t.Errorf("a new connection got %v", err)
	}
	if got := len(home.receivedCalls()); got != before {
		t.Errorf("%d calls came", got-before)
	}
	c.enroll(other.key.Key, true)
	_ = must(client.GetRun(testContext(t), &pawlv1.GetRunRequest{}))(t)
}

// TestAnAddressIsNoProof: a peer at the address of the owner that has another certificate receives no call,
// even if the certificate is that of a node.
func TestAnAddressIsNoProof(t *testing.T) {
	t.Parallel()
	c := newTown()
	imposter, other := c.node(t, "a"), c.addMember(t, "b", 200*time.Millisecond)
	home := newHouse()
	imposter.seat().Attach(home)
	claimed := imposter.self
	claimed.ID, claimed.Key = "c", must(transport.NewIdentity())(t).Key
	c.elect(claimed)
	if _, err := pawlv1.NewRunServiceClient(other.conn).GetRun(testContext(t), &pawlv1.GetRunRequest{}); reasonOf(err) != "NO_OWNER" {
		t.Errorf("got %v", err)
	}
	resp := must(other.ask(testContext(t), http.MethodPost, "/a2a/p/a", "{}"))(t)
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a request got %d", resp.StatusCode)
	}
	if len(home.receivedCalls()) != 0 {
		t.Errorf("came: %+v", home.receivedCalls())
	}
}

// TestTheSlowKeepNobodyOut: a peer that connects and does not authenticate is disconnected after some time.
// If there are too many, the oldest connection is closed.
func TestTheSlowKeepNobodyOut(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, other := c.node(t, "a"), c.node(t, "b")
	owner.ownPartitions(newHouse())
	var conns []net.Conn
	for range 200 {
		conn := must(net.Dial("tcp", owner.self.Address))(t)
		defer func() { _ = conn.Close() }()
		conns = append(conns, conn)
	}
	ctx, cancel := context.WithTimeout(testContext(t), 2*time.Second)
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

// TestNudge: a notification reaches a node at once.
func TestNudge(t *testing.T) {
	t.Parallel()
	c := newTown()
	a, b := c.node(t, "a"), c.node(t, "b")
	if err := a.clients.NotifyPeer(testContext(t), b.self); err != nil {
		t.Fatal(err)
	}
	<-b.polled
	c.enroll(a.key.Key, false)
	if err := a.clients.NotifyPeer(testContext(t), b.self); err == nil || len(b.polled) > 0 {
		t.Errorf("a stranger's nudge got %v", err)
	}
}

// TestANodeThatHangsIsLeft: soon after another node has the store, calls to a node that never answers are
// repeated there if they may be.
func TestANodeThatHangsIsLeft(t *testing.T) {
	t.Parallel()
	c := newTown()
	stopped, next, other := c.node(t, "a"), c.node(t, "b"), c.node(t, "c")
	hangs := newHouse()
	ended := make(chan struct{})
	defer close(ended)
	hangs.unary = func(context.Context, string, any) (any, error) {
		<-ended
		return nil, nil
	}
	hangs.serve = func(http.ResponseWriter, *http.Request) { <-ended }
	stopped.ownPartitions(hangs)
	client := pawlv1.NewRunServiceClient(other.conn)
	read, sent, asked := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := client.GetRun(testContext(t), &pawlv1.GetRunRequest{})
		read <- err
	}()
	go func() {
		_, err := client.EmitEvent(testContext(t), &pawlv1.EmitEventRequest{})
		sent <- err
	}()
	go func() {
		resp, err := other.ask(testContext(t), http.MethodGet, "/a2a/p/a", "")
		if err == nil {
			_ = resp.Body.Close()
		}
		asked <- err
	}()
	eventually(t, "three calls", func() bool { return stopped.seat().InFlight() == 3 })
	next.ownPartitions(newHouse())
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

// TestAnOperationOfANewerVersion: a node refuses an unknown operation with an error that names it. The
// error does not look like the end of a stream, because nothing of the operation has started.
func TestAnOperationOfANewerVersion(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, newer := c.node(t, "a"), c.node(t, "b")
	home := newHouse()
	owner.ownPartitions(home)
	refused := func(err error) {
		t.Helper()
		if st := status.Convert(err); st.Code() != codes.Unimplemented || reasonOf(err) != "OPERATION_UNKNOWN" || !strings.Contains(st.Message(), "/Later") {
			t.Errorf("got %v", err)
		}
	}
	for _, method := range []string{"/pawl.v1.RunService/Later", "/pawl.v2.RunService/Later"} {
		_, err := newer.clients.Call(auth.WithCaller(testContext(t), alice), owner.self, 0, method, &pawlv1.GetRunRequest{RunId: "x"})
		refused(err)
		stream, err := newer.clients.Stream(auth.WithCaller(testContext(t), alice), owner.self, 0, method)
		if err == nil {
			err = stream.RecvMsg(new(codec.Message))
		}
		refused(err)
	}
	if got := home.receivedCalls(); len(got) > 0 {
		t.Errorf("%v came", got)
	}
}
