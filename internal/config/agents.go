package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Agent is the address and the credentials of an A2A agent to which runs delegate work. Only the operator's
// configuration can set an address.
type Agent struct {
	// Card is the URL of the agent's A2A card. Required.
	Card string `yaml:"card" json:"card"`
	// TokenFile is a file with the bearer token that is sent to the agent; "" = no token is sent.
	TokenFile string `yaml:"token_file" json:"token_file,omitempty"`
	// Allow are additional hosts (HOST or HOST:PORT) on which the interfaces in the agent's card may
	// be. The host of the card is always allowed.
	Allow []string `yaml:"allow" json:"allow,omitempty"`
	// CA is a PEM file of the authorities that sign the agent's certificate; "" = the system's.
	CA string `yaml:"ca" json:"ca,omitempty"`
	// Cert and Key are PEM files of the client certificate for the agent; "" = none.
	Cert string `yaml:"cert" json:"cert,omitempty"`
	Key  string `yaml:"key" json:"key,omitempty"`
}

// Remotes returns the agents of the configuration file and of the flag --agent together; --agent takes precedence.
func (c *Config) Remotes() map[string]Agent {
	out := maps.Clone(c.Agents)
	if out == nil {
		out = make(map[string]Agent)
	}
	for _, text := range c.Agent {
		name, card, _ := strings.Cut(text, "=")
		out[name] = Agent{Card: card}
	}
	return out
}

// remotes checks the addresses of agents.
func (c *Config) remotes(l *list) {
	for i, text := range c.Agent {
		if name, card, ok := strings.Cut(text, "="); !ok || name == "" || card == "" {
			l.add(fmt.Sprintf("agent[%d]", i), "%q is no AGENT=CARD_URL", text)
		}
	}
	all := c.Remotes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		u, err := url.Parse(all[name].Card)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			l.add(fmt.Sprintf("agents[%s].card", name), "%q is no http(s) URL of a card", all[name].Card)
		}
		if (all[name].Cert == "") != (all[name].Key == "") {
			l.add(fmt.Sprintf("agents[%s].cert", name), "a certificate takes cert and key")
		}
	}
	if len(all) > 0 && !c.A2A {
		l.add("a2a", "is off, but agents are set: delegations are sent over A2A")
	}
}
