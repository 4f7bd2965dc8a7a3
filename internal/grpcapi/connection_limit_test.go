package grpcapi

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/credentials/insecure"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/services"
)

// rawClient sends and reads HTTP/2 frame by frame.
type rawClient struct {
	t      testing.TB
	conn   net.Conn
	framer *http2.Framer
	block  []byte
	stream uint32
}

func newRawClient(t testing.TB, conn net.Conn, method string) *rawClient {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c := &rawClient{t: t, conn: conn, framer: http2.NewFramer(conn, conn), stream: 1}
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	// Without indexing: the same bytes are good for every stream.
	encoder.SetMaxDynamicTableSizeLimit(0)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	c.block = block.Bytes()
	return c
}

// attack opens streams and resets them until the server closes the connection. It returns how many it opened.
func (c *rawClient) attack(most int, spoil func(stream uint32) error) (streams int) {
	for streams = range most {
		err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.block, EndHeaders: true})
		if err == nil {
			err = spoil(c.stream)
		}
		if err != nil {
			return streams
		}
		c.stream += 2
	}
	return most
}

// farewell is the content of a GOAWAY frame. found reports whether there was one.
type farewell struct {
	found bool
	code  http2.ErrCode
	// streams is the number of streams that the server had seen by then.
	streams uint32
}

// goAway reads to the end of the connection and returns its GOAWAY.
func (c *rawClient) goAway() (said farewell) {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return said
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			said = farewell{true, away.ErrCode, (away.LastStreamID + 1) / 2}
		}
	}
}

// TestRapidReset: a client resets streams as fast as it opens them, or makes the server reset them. The server
// sends a GOAWAY with ENHANCE_YOUR_CALM and closes the connection, with and without TLS.
func TestRapidReset(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign("server", &x509.Certificate{})
	plain := newRig(t, func(c *Config, _ *services.Config) { c.Listen = "127.0.0.1:0" })
	secure := newRig(t, func(c *Config, _ *services.Config) {
		c.Listen, c.TLSCert, c.TLSKey = "127.0.0.1:0", a.path("server.pem"), a.path("server.key")
	})
	conf := a.client("")
	conf.NextProtos = []string{"h2"}
	for name, dial := range map[string]func() (net.Conn, error){
		"plain": func() (net.Conn, error) { return new(net.Dialer).DialContext(t.Context(), "tcp", plain.server.Addr()) },
		"TLS": func() (net.Conn, error) {
			return (&tls.Dialer{Config: conf}).DialContext(t.Context(), "tcp", secure.server.Addr())
		},
	} {
		for kind, spoil := range map[string]func(*rawClient, uint32) error{
			"reset": func(c *rawClient, id uint32) error { return c.framer.WriteRSTStream(id, http2.ErrCodeCancel) },
			"spoilt": func(c *rawClient, id uint32) error {
				return c.framer.WriteRawFrame(http2.FrameWindowUpdate, 0, id, make([]byte, 4))
			},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				conn, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				c := newRawClient(t, conn, pawlv1.RunService_ListRuns_FullMethodName)
				ended := make(chan farewell, 1)
				go func() { ended <- c.goAway() }()
				// After the GOAWAY the server reads and discards frames for a while, so the number of sent
				// streams proves nothing. The streams that the server has seen are its burst and what it had
				// read ahead. If it resets them itself, these are some thousands.
				const most = 50_000
				sent := c.attack(200_000, func(id uint32) error { return spoil(c, id) })
				got := <-ended
				if !got.found || got.code != http2.ErrCodeEnhanceYourCalm {
					t.Errorf("after %d streams the server says %v (%v)", sent, got.code, got.found)
				}
				if got.streams > most {
					t.Errorf("the server took %d streams", got.streams)
				}
			})
		}
	}
	// The server still serves other callers.
	if err := list(testContext(t), dialTo(t, plain.server.Addr(), insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
}

// TestRapidResetOfTheGateway: the HTTP library of the gateway bounds what one connection begins. The server
// still serves other callers.
func TestRapidResetOfTheGateway(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign("server", &x509.Certificate{})
	r := newRig(t, withGateway, func(c *Config, _ *services.Config) { c.TLSCert, c.TLSKey = a.path("server.pem"), a.path("server.key") })
	conf := a.client("")
	conf.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: conf}).DialContext(t.Context(), "tcp", r.server.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	c := newRawClient(t, conn, "/v1/runs")
	go c.goAway()
	c.attack(2_000, func(id uint32) error { return c.framer.WriteRSTStream(id, http2.ErrCodeCancel) })
	if code := r.post(testContext(t), a.client(""), "/v1/runs", nil, &pawlv1.ListRunsResponse{}); code != 200 {
		t.Fatalf("another caller: %d", code)
	}
}

// TestStreamsOfOneConnection: the settings that the server sends say how many calls one connection may have
// open. The number follows from the limit of streams.
func TestStreamsOfOneConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config, _ *services.Config) { c.Listen, c.MaxStreams = "127.0.0.1:0", 7 })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	c := newRawClient(t, conn, "/")
	frame, err := c.framer.ReadFrame()
	settings, ok := frame.(*http2.SettingsFrame)
	if err != nil || !ok {
		t.Fatalf("%v, %v", frame, err)
	}
	if got, ok := settings.Value(http2.SettingMaxConcurrentStreams); !ok || got != 7+callStreams {
		t.Errorf("%d streams (%v)", got, ok)
	}
}
