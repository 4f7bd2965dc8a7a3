package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestDirectoryIsReplaced: an agent that was reached already is shown the new token at
// the next delegation, not when its card grows old.
func TestDirectoryIsReplaced(t *testing.T) {
	t.Parallel()
	shown := make(chan string, 8)
	var remote *httptest.Server
	remote = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"supportedInterfaces": [{"url": %q, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}`, remote.URL)
	}))
	t.Cleanup(remote.Close)
	local, err := grpc.NewClient("passthrough:none", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	with := func(token string) map[string]Remote {
		return map[string]Remote{"helper": {Card: remote.URL + "/card.json", Token: token}}
	}
	d := NewDirectory(with("old"), local, "")
	reach := func() {
		t.Helper()
		if _, _, err := d.Peer(t.Context(), &machine.Delegation{PackID: "team", Agent: "helper"}, ""); err != nil {
			t.Fatal(err)
		}
	}
	reach()
	reach()
	d.Replace(with("new"))
	reach()
	close(shown)
	var got []string
	for header := range shown {
		got = append(got, header)
	}
	if want := "[Bearer old Bearer new]"; fmt.Sprint(got) != want {
		t.Errorf("the card was asked for with %v, want %s", got, want)
	}
}
