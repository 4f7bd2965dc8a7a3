package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Remote is the operator's configuration for one agent's address. Packs, cards and model outputs cannot
// add an address.
type Remote struct {
	// Card is the URL of the agent's card.
	Card string
	// Token is sent as a bearer token. "" means that no token is sent.
	Token string
	// Allow are additional hosts (HOST or HOST:PORT) on which the interfaces in the card may be. The
	// host of the card is always allowed.
	Allow []string
	// CA are the authorities that sign the agent's certificate. nil means the authorities of the
	// system.
	CA *x509.CertPool
	// Certificate is sent to the agent if it requests a certificate. nil means that there is none.
	Certificate *tls.Certificate
}

// tls returns the TLS configuration for connections to the agent.
func (r *Remote) tls() *tls.Config {
	conf := &tls.Config{RootCAs: r.CA, MinVersion: tls.VersionTLS12}
	if r.Certificate != nil {
		conf.Certificates = []tls.Certificate{*r.Certificate}
	}
	return conf
}

// Directory finds agents. It finds a configured agent by "[NAMESPACE:]PACK/AGENT" or
// "[NAMESPACE:]AGENT". It finds all other agents among the members of the run's own pack. It is created
// with [NewDirectory].
type Directory struct {
	local  wire
	origin string

	// reading lets concurrent callers share one read of a card.
	reading singleflight.Group
	// mu protects the fields below it. changes is the number of times that remotes was replaced. A connection that
	// was opened with older values of remotes is not cached.
	mu      sync.Mutex
	remotes map[string]Remote
	changes int
	known   map[string]*contact
}

// contact is a connection to an agent. The card of the agent is read again after cardLife. cache.LRU is
// not used, because a contact expires by time and must be closed.
type contact struct {
	peer  *Peer
	until time.Time
}

// cardLife is how long a card that was read is used before it is read again. It is short, so that the new address of
// an agent that moved is found before delegations to it fail.
const cardLife = time.Minute

// NewDirectory returns a Directory. local is a connection to the members of this sidecar's own packs.
// origin is this sidecar's public base URL. It may be "".
func NewDirectory(remotes map[string]Remote, local *grpc.ClientConn, origin string) *Directory {
	return &Directory{
		remotes: remotes, local: newGRPCWire(local), origin: origin, known: make(map[string]*contact),
	}
}

// Replace replaces the credentials and addresses of agents. New calls use new connections. Running calls end on the old
// ones, which are closed after twice callTimeout. A stream then breaks, and is opened again on a new connection.
func (d *Directory) Replace(remotes map[string]Remote) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, old := range d.known {
		time.AfterFunc(2*callTimeout, func() { _ = old.peer.wire.close() })
	}
	d.remotes, d.known = remotes, make(map[string]*contact)
	d.changes++
}

// remote returns the configuration of an agent, and the value of d.changes at which it was read. If
// name is empty, the agent is not configured.
func (d *Directory) remote(space, pack, agent string) (name string, remote Remote, change int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = Named(d.remotes, space, pack, agent)
	return name, d.remotes[name], d.changes
}

// Peer returns the client for the agent that receives a delegation, and the URL of the agent's card. The URL is ""
// for a member of this store's packs. space is the run's namespace. "" means the default namespace. A configured
// address is used only for the namespace in its name, because packs of other namespaces may have the same names.
//
// If the delegation has a payer (accounts of the delegating run that also count the agent's run), the agent is always
// a member of the run's own pack, even if an address was configured since.
func (d *Directory) Peer(ctx context.Context, del *machine.Delegation, space string) (*Peer, string, error) {
	if name, remote, change := d.remote(space, del.PackID, del.Agent); name != "" && del.Payer == nil {
		peer, err := d.remotePeer(ctx, name, remote, change)
		return peer, remote.Card, err
	}
	if space != "" {
		space += ":"
	}
	return &Peer{wire: d.local, tenant: space + del.Digest + "/" + del.Agent, idempotent: true, bound: true, isLocal: true}, "", nil
}

// Local reports whether an agent of a pack has no configured address. A delegation to it then goes to the
// member of that pack. space is the namespace of the pack. "" means the default namespace.
func (d *Directory) Local(space, pack, agent string) bool {
	name, _, _ := d.remote(space, pack, agent)
	return name == ""
}

// Named returns the name under which an agent is configured. It returns "" if it is not configured.
func Named(remotes map[string]Remote, space, pack, agent string) string {
	if space != "" {
		space += ":"
	}
	for _, name := range []string{space + pack + "/" + agent, space + agent} {
		if _, ok := remotes[name]; ok {
			return name
		}
	}
	return ""
}

// remotePeer returns the client for a configured agent. If the cached card is too old, it reads the
// card and uses the first supported interface in the card. A slow agent does not delay other agents.
func (d *Directory) remotePeer(ctx context.Context, name string, remote Remote, change int) (*Peer, error) {
	if peer := d.recent(name); peer != nil {
		return peer, nil
	}
	got, err, _ := d.reading.Do(fmt.Sprint(change, name), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		peer, err := d.connect(ctx, remote)
		if err != nil {
			return nil, err
		}
		d.remember(name, peer, change)
		return peer, nil
	})
	if err != nil {
		return nil, err
	}
	return got.(*Peer), nil //nolint:forcetypeassert // the function above returns nothing else
}

func (d *Directory) recent(name string) *Peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.known[name]; c != nil && time.Now().Before(c.until) {
		return c.peer
	}
	return nil
}

// remember stores the connection to an agent. The earlier connection is closed when its calls have
// ended. If a stream breaks, it is opened again on the new connection. If remotes was replaced in the
// meantime, the connection serves only the calls that opened it.
func (d *Directory) remember(name string, peer *Peer, change int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if change != d.changes {
		time.AfterFunc(2*callTimeout, func() { _ = peer.wire.close() })
		return
	}
	if old := d.known[name]; old != nil {
		time.AfterFunc(2*callTimeout, func() { _ = old.peer.wire.close() })
	}
	d.known[name] = &contact{peer: peer, until: time.Now().Add(cardLife)}
}

// connect fetches the card of an agent, chooses an interface of the card, and returns a connection to it.
func (d *Directory) connect(ctx context.Context, remote Remote) (*Peer, error) {
	base, err := url.Parse(remote.Card)
	if err != nil {
		return nil, newRefusal("AGENT_CARD", err)
	}
	client := httpClient(remote.tls())
	headers := a2aclient.ServiceParams{}
	if remote.Token != "" {
		headers.Append("Authorization", "Bearer "+remote.Token)
	}
	card, err := fetchCard(ctx, client, remote)
	if err != nil {
		return nil, cardFault(err)
	}
	face, err := choose(card, base, remote.Allow)
	if err != nil {
		return nil, err
	}
	spoken, err := wireTo(face, base.Scheme == "https", client, remote.tls())
	if err != nil {
		return nil, err
	}
	bound := card.declares(protocol.DelegationURI)
	return &Peer{
		wire: spoken, tenant: face.Tenant, headers: headers, origin: d.origin, idempotent: bound || card.declares(protocol.IdempotentURI), bound: bound,
	}, nil
}

// cardFault converts an error of a card to a temporary error, because a missing or unreadable card may
// be corrected later. An error that is known to be permanent stays permanent.
func cardFault(err error) error {
	if fault := faultOf(err); fault.Kind != machine.AgentUnreachable {
		return fault
	}
	return &machine.AgentFault{Kind: machine.AgentUnreachable, Code: "AGENT_CARD", Message: err.Error()}
}

// choose returns the first interface in the card that has our version and a supported binding, is on an
// allowed host, and is encrypted if the card is. If there is none, it returns an error, and no message is
// sent to the agent.
func choose(card *foreignCard, base *url.URL, allow []string) (*foreignInterface, error) {
	var reasons []string
	for _, face := range card.SupportedInterfaces {
		if face == nil {
			continue
		}
		host, err := hostOf(face)
		switch {
		case err != nil:
			reasons = append(reasons, err.Error())
		case face.ProtocolVersion != protocol.ProtocolVersion && !strings.HasPrefix(face.ProtocolVersion, protocol.ProtocolVersion+"."):
			reasons = append(reasons, fmt.Sprintf("%s speaks version %q", face.URL, face.ProtocolVersion))
		case base.Scheme == "https" && strings.HasPrefix(face.URL, "http:"):
			reasons = append(reasons, face.URL+" is not encrypted, as the card is")
		case !allowed(host, base, allow):
			reasons = append(reasons, fmt.Sprintf("%s is on another host than the card, and not allowed", face.URL))
		default:
			return face, nil
		}
	}
	return nil, &machine.AgentFault{
		Kind: machine.AgentRefuses, Code: "AGENT_CARD", Message: "the card has no interface that may be used: " + strings.Join(reasons, "; "),
	}
}

// hostOf returns the HOST:PORT or the HOST of an interface.
func hostOf(face *foreignInterface) (string, error) {
	switch a2a.TransportProtocol(face.ProtocolBinding) {
	case a2a.TransportProtocolGRPC:
		if _, _, err := net.SplitHostPort(face.URL); err != nil {
			return "", fmt.Errorf("%s is no HOST:PORT", face.URL)
		}
		return face.URL, nil
	case a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON:
		u, err := url.Parse(face.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "", fmt.Errorf("%s is no http(s) URL", face.URL)
		}
		return u.Host, nil
	}
	return "", fmt.Errorf("%s speaks %q", face.URL, face.ProtocolBinding)
}

func allowed(host string, base *url.URL, allow []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	return name == base.Hostname() || slices.Contains(allow, host) || slices.Contains(allow, name)
}

// wireTo returns the connection for the protocol of an interface: JSON-RPC, HTTP with JSON, or gRPC.
func wireTo(face *foreignInterface, encrypted bool, client *http.Client, conf *tls.Config) (wire, error) {
	reader := *client
	reader.Transport = exact{client.Transport}
	client = &reader
	switch a2a.TransportProtocol(face.ProtocolBinding) {
	case a2a.TransportProtocolJSONRPC:
		return httpWire{a2aclient.NewJSONRPCTransport(face.URL, client)}, nil
	case a2a.TransportProtocolHTTPJSON:
		u, err := url.Parse(face.URL)
		if err != nil {
			return nil, newRefusal("AGENT_CARD", err)
		}
		return httpWire{a2aclient.NewRESTTransport(u, client)}, nil
	}
	creds := insecure.NewCredentials()
	if encrypted {
		creds = credentials.NewTLS(conf)
	}
	// The address from the card is used only as a host name, so that it cannot select another resolver. Credentials are
	// never sent to a proxy.
	conn, err := grpc.NewClient("dns:///"+face.URL, grpc.WithTransportCredentials(creds), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxForeign)))
	if err != nil {
		return nil, newRefusal("AGENT_CARD", err)
	}
	return newGRPCWire(conn), nil
}
