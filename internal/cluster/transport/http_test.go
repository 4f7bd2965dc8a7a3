package transport_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
)

// ask makes a request at the public HTTP port of a node.
func (m *member) ask(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.webAddr+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return http.DefaultClient.Do(req)
}

// TestARequestToAnAgentIsForwarded as it is, for who makes it; what its caller says in headers of
// ours, and by what it proved its name, stays where it came.
func TestARequestToAnAgentIsForwarded(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, other := c.node(t, "a"), c.node(t, "b")
	home := newHouse()
	home.serve = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		who := auth.CallerOf(r.Context())
		w.Header().Set("X-Said", r.Method+" "+r.Host+" "+r.URL.RequestURI()+" "+r.Header.Get("A2a-Version")+" "+string(body))
		w.Header().Set("X-Who", who.Name()+" "+strings.Join(who.Namespaces, ","))
		w.Header().Set("X-Ours", r.Header.Get("Pawl-Caller")+r.Header.Get("Pawl-Peer")+r.Header.Get("Pawl-Part")+r.Header.Get("Pawl-Space")+r.Header.Get("Authorization"))
		if r.TLS != nil || r.RemoteAddr == "" || r.RemoteAddr != auth.PeerOf(r.Context()) {
			w.Header().Set("X-Ours", "the connection of the node")
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("answer"))
	}
	owner.ownPartitions(home)
	for name, n := range map[string]*member{"here": owner, "elsewhere": other} {
		t.Run(name, func(t *testing.T) {
			resp, err := n.ask(testContext(t), http.MethodPost, "/a2a/p/a%2Fb?x=1%2F2", "question", "A2A-Version", "1.0", "Pawl-Caller", "eyJOYW1lIjoibWFsbG9yeSJ9",
				"Pawl-Peer", "9.9.9.9", "Pawl-Part", "9", "Pawl-Space", "red", "Connection", "Pawl-Caller", "Authorization", "Bearer secret")
			if err != nil {
				t.Fatal(err)
			}
			body := must(io.ReadAll(resp.Body))(t)
			_ = resp.Body.Close()
			host := strings.TrimPrefix(n.webAddr, "http://")
			if want := "POST " + host + " /a2a/p/a%2Fb?x=1%2F2 1.0 question"; resp.Header.Get("X-Said") != want || resp.StatusCode != http.StatusTeapot || string(body) != "answer" {
				t.Errorf("said %q and got %d %q", resp.Header.Get("X-Said"), resp.StatusCode, body)
			}
			if got := resp.Header.Get("X-Who"); got != "alice red,blue,default" {
				t.Errorf("who: %q", got)
			}
			if got := resp.Header.Get("X-Ours"); got != "" && (n != owner || got != "Bearer secret") {
				t.Errorf("ours: %q", got)
			}
			if got := resp.Header.Get("Pawl-Owner"); (got == owner.self.Address) != (n == other) {
				t.Errorf("the owner is %q", got)
			}
		})
	}
}

// TestEventsComeAsTheyAreSent over HTTP, and end when either side wants.
func TestEventsComeAsTheyAreSent(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, other := c.node(t, "a"), c.node(t, "b")
	home := newHouse()
	more, ended := make(chan string), make(chan struct{}, 1)
	home.serve = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case text := <-more:
				_, _ = io.WriteString(w, "data: "+text+"\n\n")
			case <-r.Context().Done():
				ended <- struct{}{}
				return
			}
		}
	}
	owner.ownPartitions(home)
	for name, n := range map[string]*member{"here": owner, "elsewhere": other} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			resp := must(n.ask(ctx, http.MethodPost, "/a2a/p/a", "{}"))(t)
			lines := bufio.NewReader(resp.Body)
			for _, text := range []string{"one", "two"} {
				more <- text
				if line := must(lines.ReadString('\n'))(t); line != "data: "+text+"\n" {
					t.Errorf("got %q", line)
				}
				_, _ = lines.ReadString('\n')
			}
			cancel()
			_ = resp.Body.Close()
			<-ended
		})
	}
	t.Run("with its node", func(t *testing.T) {
		resp := must(other.ask(testContext(t), http.MethodPost, "/a2a/p/a", "{}"))(t)
		defer func() { _ = resp.Body.Close() }()
		more <- "one"
		owner.port.Stop()
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("a stream that was cut off ended well")
		}
		<-ended
	})
}

// TestARequestIsMadeAgain by the rule of calls: what was not begun always, else what reads or has
// a key.
func TestARequestIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		method string
		begun  bool
		header []string
		again  bool
	}{
		"not begun": {http.MethodPost, false, nil, true}, "read": {http.MethodGet, true, nil, true},
		"sent": {http.MethodPost, true, nil, false}, "sent with a key": {http.MethodPost, true, []string{"Idempotency-Key", "k"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTown()
			lostNode, next, other := c.node(t, "a"), c.node(t, "b"), c.node(t, "c")
			home := newHouse()
			home.serve = func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				_, _ = w.Write(append([]byte("again "), body...))
			}
			if one.begun {
				dying := newHouse()
				dying.serve = func(_ http.ResponseWriter, r *http.Request) {
					go func() {
						lostNode.port.Stop()
						next.ownPartitions(home)
					}()
					<-r.Context().Done()
				}
				lostNode.ownPartitions(dying)
			} else {
				c.elect(lostNode.self)
				go func() {
					eventually(t, "a first try", func() bool { return other.counts.hasLine("forwarded http NOT_STARTED") })
					next.ownPartitions(home)
				}()
			}
			resp := must(other.ask(testContext(t), one.method, "/a2a/p/a", "body", one.header...))(t)
			body := string(must(io.ReadAll(resp.Body))(t))
			_ = resp.Body.Close()
			if one.again && (resp.StatusCode != http.StatusOK || body != "again body") {
				t.Errorf("got %d %s", resp.StatusCode, body)
			}
			if !one.again && (resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "COMMIT_UNKNOWN") || resp.Header.Get("Retry-After") == "") {
				t.Errorf("got %d %s", resp.StatusCode, body)
			}
		})
	}
}

// TestALargeBodyIsSentOnce, whole; where it was not begun it cannot be sent again.
func TestALargeBodyIsSentOnce(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, other := c.node(t, "a"), c.node(t, "b")
	home := newHouse()
	home.serve = func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	}
	large := strings.Repeat("x", 5<<20)
	go func() {
		eventually(t, "a call that waits", func() bool { return other.counts.hasLine("retried http") })
		owner.ownPartitions(home)
	}()
	resp := must(other.ask(testContext(t), http.MethodPost, "/a2a/p/a", large))(t)
	body := string(must(io.ReadAll(resp.Body))(t))
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK || body != strconv.Itoa(len(large)) {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	owner.leave()
	resp = must(other.ask(testContext(t), http.MethodPost, "/a2a/p/a", large))(t)
	body = string(must(io.ReadAll(resp.Body))(t))
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "OWNER_LOST") {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
}

// TestNobodyAnswersAnAgent: the same over HTTP as for calls.
func TestNobodyAnswersAnAgent(t *testing.T) {
	t.Parallel()
	n := newTown().addMember(t, "a", 100*time.Millisecond)
	resp := must(n.ask(testContext(t), http.MethodPost, "/a2a/p/a", "{}"))(t)
	body := string(must(io.ReadAll(resp.Body))(t))
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, `"NO_OWNER"`) || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	n.router.Drain()
	resp = must(n.ask(testContext(t), http.MethodGet, "/a2a/p/a", ""))(t)
	body = string(must(io.ReadAll(resp.Body))(t))
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, `"DRAINING"`) {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
}
