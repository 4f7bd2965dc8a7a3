package relay_test

import (
	"bufio"
	"io"
	"net"
	"testing"

	"github.com/pawl-dev/pawl/test/testkit/relay"
)

// echo is a server that tells of each line that it got, and answers it.
func echo(t *testing.T) (addr string, got <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	lines := make(chan string, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := bufio.NewReader(conn); ; {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					lines <- line
					_, _ = io.WriteString(conn, "re "+line)
				}
			}()
		}
	}()
	return listener.Addr().String(), lines
}

type client struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func dial(t *testing.T, addr string) client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return client{conn, t, bufio.NewReader(conn)}
}

func (c client) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line); err != nil {
		c.t.Fatal(err)
	}
}

func (c client) hears(want string) {
	c.t.Helper()
	if got, err := c.in.ReadString('\n'); err != nil || got != want {
		c.t.Fatalf("%q, %v instead of %q", got, err, want)
	}
}

func (c client) hearsTheEnd() {
	c.t.Helper()
	if got, err := c.in.ReadString('\n'); err == nil || got != "" {
		c.t.Fatalf("%q", got)
	}
}

func is(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%q instead of %q", got, want)
	}
}

// TestRelayPassesAndCuts: what is said arrives; a cut breaks what is, a refusal what comes.
func TestRelayPassesAndCuts(t *testing.T) {
	t.Parallel()
	addr, got := echo(t)
	r := relay.Start(t, addr)
	c := dial(t, r.Addr())
	c.say("a\n")
	c.hears("re a\n")
	is(t, <-got, "a\n")
	if n := r.Cut(); n != 1 {
		t.Fatal(n)
	}
	c.hearsTheEnd()
	c = dial(t, r.Addr())
	c.say("b\n")
	c.hears("re b\n")
	r.Refuse()
	c.hearsTheEnd()
	// Broken while it is made, or right after.
	if conn, err := net.Dial("tcp", r.Addr()); err == nil {
		client{conn, t, bufio.NewReader(conn)}.hearsTheEnd()
	}
	r.Accept()
	other, heard := echo(t)
	r.Retarget(other)
	c = dial(t, r.Addr())
	c.say("c\n")
	c.hears("re c\n")
	is(t, <-heard, "c\n")
}

// TestHeldBytesArriveLate: those of a client that is gone, too.
func TestHeldBytesArriveLate(t *testing.T) {
	t.Parallel()
	addr, got := echo(t)
	r := relay.Start(t, addr)
	c, gone := dial(t, r.Addr()), dial(t, r.Addr())
	for _, one := range []client{c, gone} {
		one.say("a\n")
		one.hears("re a\n")
		is(t, <-got, "a\n")
	}
	r.Hold(relay.Requests)
	gone.say("b\n")
	_ = gone.Close()
	r.Release(relay.Requests)
	is(t, <-got, "b\n")
	r.Hold(relay.Answers)
	c.say("c\n")
	is(t, <-got, "c\n")
	r.Release(relay.Answers)
	c.hears("re c\n")
}

// TestTraps: the one request is carried out and not answered, or carried out late.
func TestTraps(t *testing.T) {
	t.Parallel()
	addr, got := echo(t)
	r := relay.Start(t, addr)
	lost := r.LoseAnswer("needle")
	c, other := dial(t, r.Addr()), dial(t, r.Addr())
	c.say("a needl")
	c.say("e\n")
	is(t, <-got, "a needle\n")
	c.hearsTheEnd()
	<-lost.Triggered()
	other.say("needle\n")
	other.hears("re needle\n")
	is(t, <-got, "needle\n")

	late := r.Delay("straw")
	other.say("straw\n")
	<-late.Triggered()
	late.Abandon()
	other.hearsTheEnd()
	c = dial(t, r.Addr())
	c.say("straw again\n")
	is(t, <-got, "straw again\n")
	late.Deliver()
	is(t, <-got, "straw\n")
}
