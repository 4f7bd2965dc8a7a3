package delivery

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// names is a DNS server for one name. The test changes its addresses between two tries. All queries of one try
// get the same addresses.
type names struct {
	now atomic.Pointer[[]netip.Addr]
}

// answer returns the DNS answer to a query: the addresses in now for a question for IPv4, and no address for
// IPv6.
func (n *names) answer(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	q := m.Questions[0]
	if q.Type == dnsmessage.TypeA {
		for _, at := range *n.now.Load() {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: at.As4()},
			})
		}
	}
	return m.Pack()
}

// resolver returns a resolver that queries names over a UDP socket.
func (n *names) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		query := make([]byte, 4096)
		for {
			size, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			if answer, err := n.answer(query[:size]); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// TestNamesThatTurnInward: a name resolves to an allowed address, and at the next try to a loopback address.
// The poster never connects to the loopback address, even if the answer has an allowed address too.
func TestNamesThatTurnInward(t *testing.T) {
	t.Parallel()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	var inward, outward atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr); netip.MustParseAddrPort(local.String()).Addr() == loop {
			inward.Add(1)
			return
		}
		outward.Add(1)
	})}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { server.Close() })
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far := netip.MustParseAddr("127.0.0.2") // stands for an address of the Internet
	var turning names
	poster := newHTTPPoster([]netip.Prefix{netip.PrefixFrom(far, 32)}, turning.resolver(t))
	sub := &machine.Subscription{URL: "http://rebinding.example.:" + port + "/"}
	for try, at := range [][]netip.Addr{{far}, {loop}, {loop, far}, {loop}} {
		turning.now.Store(&at)
		arrives := slices.Contains(at, far)
		err := poster.Post(t.Context(), sub, machine.Delivery{ID: "1"})
		if arrives != (err == nil) || !arrives && !errors.Is(err, errNotPublic) {
			t.Errorf("try %d: %v", try+1, err)
		}
	}
	if inward.Load() != 0 || outward.Load() != 2 {
		t.Errorf("%d requests came in at loopback, %d at the other address", inward.Load(), outward.Load())
	}
}

var loop = netip.MustParseAddr("127.0.0.1")
