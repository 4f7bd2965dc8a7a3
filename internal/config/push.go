package config

import (
	"fmt"
	"net/netip"
)

// PushPrefixes returns the addresses and networks in PushAllow in parsed form; the configuration must have been
// validated.
func (c *Config) PushPrefixes() []netip.Prefix {
	prefixes, _ := c.pushPrefixes()
	return prefixes
}

// pushPrefixes parses PushAllow, and returns a fault for each text that is neither an address nor a network.
func (c *Config) pushPrefixes() (prefixes []netip.Prefix, faults []Fault) {
	for i, text := range c.PushAllow {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			var addr netip.Addr
			if addr, err = netip.ParseAddr(text); err == nil {
				prefix = netip.PrefixFrom(addr, addr.BitLen())
			}
		}
		if err != nil {
			faults = append(faults, Fault{Field: fmt.Sprintf("push_allow[%d]", i), Message: fmt.Sprintf("%q is neither an address nor a CIDR", text)})
			continue
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, faults
}
