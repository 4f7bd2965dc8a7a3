package transport_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/a2a"
	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/cluster/transport"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// testCluster is a cluster in one process: its nodes, and the owner of each partition. There is one
// partition unless parts has the partitions of namespaces.
type testCluster struct {
	parts      map[string]int32
	mu         sync.Mutex
	keys       map[[32]byte]bool
	owners     map[int32]router.Peer
	changed    chan struct{}
	trustReads int
}

func newTown() *testCluster {
	return &testCluster{keys: map[[32]byte]bool{}, owners: map[int32]router.Peer{}, changed: make(chan struct{})}
}

// partOf returns the partition of a namespace.
func (c *testCluster) partOf(namespace string) int32 { return c.parts[namespace] }

func (c *testCluster) KnowsKey(key [32]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys[key]
}

func (c *testCluster) enroll(key [32]byte, in bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[key] = in
}

// elect makes a node the owner of partitions. The default is the first partition.
func (c *testCluster) elect(owner router.Peer, parts ...int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, part := range orFirst(parts) {
		c.owners[part] = owner
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

func orFirst(parts []int32) []int32 {
	if len(parts) == 0 {
		return []int32{0}
	}
	return parts
}

// view is the directory of one node.
type view struct {
	*testCluster
	id string
}

func (v view) Owner(part int32) (router.Peer, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if owner := v.owners[part]; owner.ID != "" && owner.ID != v.id {
		return owner, true
	}
	return router.Peer{}, false
}

func (v view) Owners() (owners []router.Peer, all bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	others := map[router.Peer]bool{}
	for _, owner := range v.owners {
		if owner.ID != v.id {
			others[owner] = true
		}
	}
	open := map[int32]bool{0: true}
	for _, part := range v.parts {
		open[part] = true
	}
	return slices.Collect(maps.Keys(others)), len(v.owners) == len(open)
}

func (view) Stale() bool       { return false }
func (view) NonEmpty() []int32 { return nil }

func (v view) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

func (v view) Refresh() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.trustReads++
}

// member is a node: its public ports, its port for other nodes, and its slots.
type member struct {
	t       testing.TB
	in      *testCluster
	self    router.Peer
	key     transport.Identity
	seats   *router.Slots
	router  *router.Router
	clients *transport.Clients
	port    *transport.Server
	public  *grpc.Server
	conn    *grpc.ClientConn
	web     *http.Server
	webAddr string
	counts  *counts
	polled  chan struct{}
}

// alice is the caller at the public port of every node.
var alice = &auth.Caller{Principal: runtime.Principal{Subject: "alice", Scopes: runtime.ScopeRunsRead | runtime.ScopeRunsWrite, Namespaces: []string{"red", "blue", "default"}}}

func (c *testCluster) node(t testing.TB, id string) *member {
	t.Helper()
	return c.addMember(t, id, 10*time.Second)
}

func (c *testCluster) addMember(t testing.TB, id string, patience time.Duration) *member {
	t.Helper()
	m := &member{t: t, in: c, seats: router.NewSlots(), counts: &counts{}, polled: make(chan struct{}, 16)}
	m.key = must(transport.NewIdentity())(t)
	directory := view{c, id}
	m.clients = transport.NewClients(m.key, directory)
	m.router = router.New(router.Config{
		Slots: m.seats, Directory: directory, Peers: m.clients, Parts: c.partOf, Tenant: a2a.TenantOf, Counts: m.counts, OwnerTimeout: patience,
	})
	m.port = must(transport.NewServer(transport.Config{Listen: "127.0.0.1:0", Identity: m.key, TrustStore: c, Router: m.router, OnNotify: func() { m.polled <- struct{}{} }}))(t)
	m.self = router.Peer{ID: id, Address: m.port.Addr(), Key: m.key.Key}
	c.enroll(m.key.Key, true)
	served := make(chan error, 1)
	go func() { served <- m.port.Serve() }()
	m.open()
	t.Cleanup(func() {
		m.router.Drain()
		_ = m.conn.Close()
		m.public.Stop()
		_ = m.web.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		m.port.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if err := m.clients.Close(); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	})
	return m
}

// open serves the public ports, where every caller is alice.
func (m *member) open() {
	m.public = grpc.NewServer(grpc.ForceServerCodecV2(codec.NewCodec(0)),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			resp, err := m.router.Unary(auth.WithCaller(ctx, alice), req, info, next)
			return resp, formed(err)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return formed(m.router.Stream(srv, codec.NewStream(&serverStream{stream, auth.WithCaller(stream.Context(), alice)}), info, next))
		}))
	for _, desc := range router.Services {
		codec.Register(m.public, desc, nil)
	}
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(m.t)
	go func() { _ = m.public.Serve(ln) }()
	m.conn = must(grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec.NewCodec(0)))))(m.t)
	weblisten := must(net.Listen("tcp", "127.0.0.1:0"))(m.t)
	m.webAddr = "http://" + weblisten.Addr().String()
	m.web = &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.router.ServeHTTP(w, r.WithContext(auth.WithPeer(auth.WithCaller(r.Context(), alice), r.RemoteAddr)))
	})}
	go func() { _ = m.web.Serve(weblisten) }()
}

func formed(err error) error {
	if err == nil {
		return nil
	}
	st, _ := apierror.Status(err)
	return st.Err()
}

// seat returns the slot of the first partition.
func (m *member) seat() *router.Slot { return m.seats.At(0) }

// ownPartitions makes a node the owner of partitions, with one backend. The default is the first partition.
func (m *member) ownPartitions(home router.Backend, parts ...int32) {
	for _, part := range orFirst(parts) {
		m.seats.At(part).Attach(home)
	}
	m.in.elect(m.self, parts...)
}

// leave makes a node give partitions back. The default is the first partition.
func (m *member) leave(parts ...int32) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, part := range orFirst(parts) {
		if _, err := m.seats.At(part).Detach(ctx); err != nil {
			m.t.Error("take:", err)
		}
	}
}

type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (i *serverStream) Context() context.Context { return i.ctx }

// counts records the events that the router counts.
type counts struct {
	mu    sync.Mutex
	lines []string
}

func (c *counts) add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
}
func (c *counts) Forwarded(method, outcome string) { c.add("forwarded " + method + " " + outcome) }
func (c *counts) Retried(method string)            { c.add("retried " + method) }
func (c *counts) NoOwner(method string)            { c.add("no owner " + method) }

func (c *counts) hasLine(line string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.lines, line)
}

// fakeBackend is a backend for tests. Without a function, it answers with as many messages as it received.
type fakeBackend struct {
	mu     sync.Mutex
	calls  []call
	unary  func(ctx context.Context, method string, req any) (any, error)
	stream func(method string, stream grpc.ServerStream) error
	serve  http.HandlerFunc
	// brief: the backend does not record calls.
	brief  bool
	ended  chan struct{}
	once   sync.Once
	broken chan struct{}
}

// call is a call as a backend received it.
type call struct {
	method, caller, trace, peer string
	namespaces                  []string
	scopes                      runtime.Scopes
	requests                    []proto.Message
	md                          metadata.MD
}

func newHouse() *fakeBackend {
	return &fakeBackend{ended: make(chan struct{}), broken: make(chan struct{})}
}

func (h *fakeBackend) note(ctx context.Context, method string, got ...proto.Message) {
	caller := auth.CallerOf(ctx)
	md, _ := metadata.FromIncomingContext(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call{
		method: method, caller: caller.Name(), trace: auth.TraceOf(ctx), peer: auth.PeerOf(ctx),
		namespaces: caller.Namespaces, scopes: caller.Scopes, requests: got, md: md,
	})
}

func (h *fakeBackend) receivedCalls() []call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

func (h *fakeBackend) Call(ctx context.Context, method string, req any) (any, error) {
	if h.brief {
		return h.unary(ctx, method, req)
	}
	h.note(ctx, method, req.(proto.Message))
	if h.unary != nil {
		return h.unary(ctx, method, req)
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-head", "h"))
	_ = grpc.SetTrailer(ctx, metadata.Pairs("x-tail", "t"))
	return router.MethodOf(method).NewResponse(), nil
}

func (h *fakeBackend) Stream(method string, stream grpc.ServerStream) error {
	if h.stream != nil {
		return h.stream(method, stream)
	}
	var got []proto.Message
	for {
		m := router.MethodOf(method).NewRequest()
		err := stream.RecvMsg(m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		got = append(got, m)
	}
	h.note(stream.Context(), method, got...)
	if err := stream.SendHeader(metadata.Pairs("x-head", "h")); err != nil {
		return err
	}
	for range got {
		if err := stream.SendMsg(router.MethodOf(method).NewResponse()); err != nil {
			return err
		}
	}
	stream.SetTrailer(metadata.Pairs("x-tail", "t"))
	return nil
}

func (h *fakeBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.note(r.Context(), r.Method+" "+r.URL.RequestURI())
	if h.serve != nil {
		h.serve(w, r)
	}
}

func (h *fakeBackend) End()                    { h.once.Do(func() { close(h.ended) }) }
func (h *fakeBackend) Failed() <-chan struct{} { return h.broken }

func must[T any](got T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("in vain: " + what)
		}
	}
}
