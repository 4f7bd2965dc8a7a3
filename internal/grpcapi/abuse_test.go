package grpcapi

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/services"
)

// abused returns a server and a client of it that sends frame by frame.
func abused(t *testing.T) (*rig, *rawClient) {
	t.Helper()
	r := newRig(t, func(c *Config, _ *services.Config) { c.Listen = "127.0.0.1:0" })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	c := newRawClient(t, conn, pawlv1.RunService_GetRun_FullMethodName)
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return r, c
}

// TestContinuationFlood: the server does not collect headers without end (CVE-2023-45288, CVE-2024-27316).
func TestContinuationFlood(t *testing.T) {
	t.Parallel()
	r, c := abused(t)
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block}); err != nil {
		t.Fatal(err)
	}
	var sent int
	for err := error(nil); err == nil && sent < 64<<20; sent += 16 << 10 {
		err = c.framer.WriteContinuation(1, false, literal("x", 16<<10))
	}
	if sent >= 64<<20 {
		t.Errorf("%d bytes of one header block were taken", sent)
	}
	r.alive(t)
}

// literal returns a header field that is not indexed, of about n bytes.
func literal(name string, n int) []byte {
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0)
	_ = encoder.WriteField(hpack.HeaderField{Name: name, Value: strings.Repeat("~", n/2), Sensitive: true})
	return []byte(block.String())
}

// TestHeadersAreBounded: the server refuses a stream whose list of headers is over the limit.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	r, c := abused(t)
	block := append(append([]byte{}, c.block...), literal("x", 8<<10)...)
	for range 40 {
		block = append(block, literal("x", 8<<10)...)
	}
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:16<<10]})
	for rest := block[16<<10:]; err == nil && len(rest) > 0; {
		n := min(len(rest), 16<<10)
		err = c.framer.WriteContinuation(1, n == len(rest), rest[:n])
		rest = rest[n:]
	}
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			break // The connection is cut: refused as well.
		}
		if f, ok := frame.(*http2.SettingsFrame); ok && !f.IsAck() {
			if got, ok := f.Value(http2.SettingMaxHeaderListSize); !ok || got != headerBytes {
				t.Errorf("the client is told of %d bytes of headers", got)
			}
		}
		if frame.Header().StreamID == 1 {
			if _, ok := frame.(*http2.RSTStreamFrame); !ok {
				t.Errorf("answered with %v", frame)
			}
			break
		}
	}
	r.alive(t)
}

// TestPingFlood: the server closes the connection of a client that pings without pause. Its GOAWAY says
// ENHANCE_YOUR_CALM.
func TestPingFlood(t *testing.T) {
	t.Parallel()
	r, c := abused(t)
	go func() {
		for c.framer.WritePing(false, [8]byte{1}) == nil {
		}
	}()
	if frame := c.goAway(); frame.found && frame.code != http2.ErrCodeEnhanceYourCalm {
		t.Errorf("GOAWAY with %v", frame.code)
	}
	r.alive(t)
}

// TestSettingsFlood: if a client sends settings and does not read the acknowledgements, the server stops
// reading from it, so that the acknowledgements do not pile up.
func TestSettingsFlood(t *testing.T) {
	t.Parallel()
	r, c := abused(t)
	const most = 4 << 20
	for sent := range most {
		// Without progress for this time the server has stopped reading, even on a slow machine.
		if err := c.conn.SetWriteDeadline(time.Now().Add(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := c.framer.WriteSettings(); err != nil {
			r.alive(t)
			return
		}
		if sent == most-1 {
			t.Errorf("%d settings were taken of a client that reads nothing", most)
		}
	}
}

// TestNoGreeting: the server closes a connection that sends nothing, or that begins and does not continue.
func TestNoGreeting(t *testing.T) {
	t.Parallel()
	r, c := abused(t)
	c.conn.Close()
	conns := map[string]net.Conn{}
	for _, words := range []string{"", http2.ClientPreface[:10]} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, words)
		_ = conn.SetReadDeadline(time.Now().Add(6 * handshakeTimeout))
		conns[words] = conn
	}
	for words, conn := range conns {
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q keeps a connection", words)
		}
	}
}

// alive fails the test unless the server serves another client.
func (r *rig) alive(t *testing.T) {
	t.Helper()
	r.start(testContext(t))
}
