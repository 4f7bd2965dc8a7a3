package delivery

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestSpecialAddresses: guard refuses the first and the last address of every special range, also with a zone
// or as an IPv4-mapped IPv6 address. It allows the addresses beside a range that are in no other range.
func TestSpecialAddresses(t *testing.T) {
	t.Parallel()
	judge := func(ip netip.Addr) error { return guard(netip.AddrPortFrom(ip, 443).String(), nil) }
	covered := func(ip netip.Addr) bool {
		for _, s := range specials {
			if s.prefix.Contains(ip) {
				return true
			}
		}
		return ip.Is6() && !globalUnicast.Contains(ip)
	}
	for _, s := range specials {
		first, last := s.prefix.Masked().Addr(), lastOf(s.prefix)
		for _, ip := range []netip.Addr{first, last} {
			if err := judge(ip); !errors.Is(err, errNotPublic) {
				t.Errorf("%s of %s (%s): %v", ip, s.prefix, s.name, err)
			}
		}
		if first.Is4() {
			if err := judge(netip.AddrFrom16(first.As16())); !errors.Is(err, errNotPublic) {
				t.Errorf("%s as IPv6: %v", first, err)
			}
		} else if err := judge(last.WithZone("eth0")); !errors.Is(err, errNotPublic) {
			t.Errorf("%s with a zone: %v", last, err)
		}
		for _, ip := range []netip.Addr{first.Prev(), last.Next()} {
			if !ip.IsValid() || covered(ip) {
				continue
			}
			if err := judge(ip); err != nil {
				t.Errorf("%s beside %s: %v", ip, s.prefix, err)
			}
		}
	}
}

func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(bytes); bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	ip, _ := netip.AddrFromSlice(bytes)
	return ip
}

// TestAddressesThatWereDialed: guard refuses addresses that attackers have used. It allows public addresses,
// and addresses in the list of allowed prefixes.
func TestAddressesThatWereDialed(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "169.254.169.254", "172.31.0.1", "192.0.0.192",
		"192.168.1.1", "198.18.0.1", "198.19.255.255", "224.0.0.1", "240.0.0.1", "255.255.255.255", "203.0.113.9",
		"::", "::1", "::7f00:1", "::ffff:10.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "100::1", "2001::1",
		"2001:20::1", "2001:db8::1", "2002:7f00:1::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1%lo", "fec0::1", "ff02::1", "4000::1", "e000::1",
	} {
		if err := guard(net.JoinHostPort(address, "443"), nil); !errors.Is(err, errNotPublic) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"1.1.1.1", "9.255.255.255", "100.128.0.1", "172.32.0.1", "223.255.255.255", "2606:4700::1111", "2001:200::1", "2a00::1"} {
		if err := guard(net.JoinHostPort(address, "443"), nil); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	allow := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")}
	for _, address := range []string{"10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "fd00::1%eth0"} {
		if err := guard(net.JoinHostPort(address, "443"), allow); err != nil {
			t.Errorf("%s is allowed: %v", address, err)
		}
	}
	if guard("nonsense", allow) == nil {
		t.Error("what is no address is dialed")
	}
}

// TestReceiversFaultsTellNothing: the message for the owner of a webhook says that the receiver does not
// answer. It contains no address of a resolver or a receiver, and not the path of the URL.
func TestReceiversFaultsTellNothing(t *testing.T) {
	t.Parallel()
	missing := &net.DNSError{Err: "no such host", Name: "hook.example", Server: "10.96.0.10:53", IsNotFound: true}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 443}, Err: errors.New("connect: connection refused")}
	reset := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 9, 9, 9), Port: 5}, Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 443}, Err: errors.New("connection reset by peer")}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{missing, "the receiver's name is not known"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "i/o timeout", Server: "10.96.0.10:53", IsTimeout: true}}, "the receiver's name was not resolved in time"},
		{&net.DNSError{Err: "server misbehaving", Server: "10.96.0.10:53"}, "the receiver's name could not be resolved"},
		{refused, "dial: connect: connection refused"},
		{reset, "read: connection reset by peer"},
		{guard("10.1.2.3:443", nil), "the receiver's address is no public address"},
		{context.DeadlineExceeded, "context deadline exceeded"},
		{errors.New("the receiver answers 500"), "the receiver answers 500"},
	} {
		wrapped := &url.Error{Op: "Post", URL: "https://hook.example/hush", Err: tt.err}
		for _, err := range []error{tt.err, wrapped, fmt.Errorf("again: %w", wrapped)} {
			got := publicMessage(err)
			if strings.Contains(got, "10.") || strings.Contains(got, "hush") {
				t.Errorf("%v tells %q", err, got)
			}
		}
		if got := publicMessage(tt.err); !strings.Contains(got, tt.want) {
			t.Errorf("%v is told as %q, want %q", tt.err, got, tt.want)
		}
		if strings.Contains(withoutURL(wrapped).Error(), "hush") {
			t.Errorf("the log has %v", withoutURL(wrapped))
		}
	}
}

// TestPosterJudgesWhatItDials: the poster checks the addresses that a name resolves to. It follows no
// redirection.
func TestPosterJudgesWhatItDials(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/", http.StatusTemporaryRedirect))
	t.Cleanup(receiver.Close)
	_, port, err := net.SplitHostPort(receiver.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	sub := &machine.Subscription{URL: "http://localhost:" + port + "/"}
	err = NewHTTPPoster(nil).Post(t.Context(), sub, machine.Delivery{ID: "1"})
	if !errors.Is(err, errNotPublic) || strings.Contains(publicMessage(err), "127.0.0.1") {
		t.Errorf("a name of this host: %v, told as %q", err, publicMessage(err))
	}
	err = NewHTTPPoster([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}).Post(t.Context(), sub, machine.Delivery{ID: "1"})
	if !errors.Is(err, errRedirect) {
		t.Errorf("a redirection: %v", err)
	}
}

// TestRogueReceiver: the poster reads only a bounded part of an endless answer, in its headers or in its body.
// If the status is 2xx, the receiver has taken the event.
func TestRogueReceiver(t *testing.T) {
	t.Parallel()
	endless := func(head string, more string) string {
		ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					// Read the request first: the client ignores an answer that comes before its request.
					if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
						return
					}
					for _, err := io.WriteString(conn, head); err == nil; {
						_, err = io.WriteString(conn, more)
					}
				}()
			}
		}()
		return "http://" + ln.Addr().String() + "/"
	}
	poster := NewHTTPPoster([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	post := func(url string) error {
		return poster.Post(t.Context(), &machine.Subscription{URL: url}, machine.Delivery{ID: "1"})
	}
	if err := post(endless("HTTP/1.1 200 OK\r\n", "X: "+strings.Repeat("x", 1000)+"\r\n")); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("headers without end: %v", err)
	}
	if err := post(endless("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 1000))); err != nil {
		t.Errorf("a body without end: %v", err)
	}
	if err := post(endless("HTTP/1.1 500 No\r\n\r\n", strings.Repeat("x", 1000))); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("a refusal without end: %v", err)
	}
}
