package client

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// foreignCard is the part of an agent's card that a delegation needs. The other parts are ignored, so
// that a card that describes its security in a different form can still be used. The reader of the SDK
// would refuse such a card (see docs/guides/a2a.md).
type foreignCard struct {
	SupportedInterfaces []*foreignInterface `json:"supportedInterfaces"`
	Capabilities        struct {
		Extensions []struct {
			URI string `json:"uri"`
		} `json:"extensions"`
	} `json:"capabilities"`
}

// foreignInterface is the address and the protocol of an interface of an agent.
type foreignInterface struct {
	URL             string `json:"url"`
	ProtocolBinding string `json:"protocolBinding"`
	ProtocolVersion string `json:"protocolVersion"`
	Tenant          string `json:"tenant"`
}

// declares reports whether the agent has an extension.
func (c *foreignCard) declares(uri string) bool {
	for _, e := range c.Capabilities.Extensions {
		if e.URI == uri {
			return true
		}
	}
	return false
}

// fetchCard reads the card at the address that the operator configured. An error that is not known to be
// permanent is treated as temporary, because a card that is missing or unreadable may be corrected later.
func fetchCard(ctx context.Context, client *http.Client, remote Remote) (*foreignCard, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, remote.Card, nil)
	if err != nil {
		return nil, newRefusal("AGENT_CARD", err)
	}
	req.Header.Set("Accept", "application/json")
	if remote.Token != "" {
		req.Header.Set("Authorization", "Bearer "+remote.Token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the agent's card is answered with %s", resp.Status)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	card := &foreignCard{}
	if err := strictjson.Decode(raw, card, strictjson.Foreign); err != nil {
		return nil, fmt.Errorf("the agent's card cannot be read: %w", err)
	}
	return card, nil
}
