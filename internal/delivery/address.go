package delivery

import (
	"errors"
	"fmt"
	"net/netip"
)

// special is a range of addresses that are not public.
type special struct {
	prefix netip.Prefix
	name   string
}

// specials are the address ranges that webhooks must not reach: the ranges in IANA's special-purpose
// registries for IPv4 and IPv6, and ranges that RFCs have retired or reserved. All IPv6 addresses
// outside of 2000::/3 are refused anyway; the list names some of them only for a clear error.
var specials = []special{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network (RFC 791)"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carriers' shared space (RFC 6598)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback (RFC 1122)"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local (RFC 3927)"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments (RFC 6890)"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("192.31.196.0/24"), "AS112 (RFC 7535)"},
	{netip.MustParsePrefix("192.52.193.0/24"), "multicast tunnels (RFC 7450)"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relays (RFC 7526)"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("192.175.48.0/24"), "AS112 (RFC 7534)"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking (RFC 2544)"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast (RFC 5771)"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved, and broadcast (RFC 1112)"},

	{netip.MustParsePrefix("::/96"), "unspecified, loopback, IPv4-compatible (RFC 4291)"},
	{netip.MustParsePrefix("64:ff9b::/96"), "NAT64 (RFC 6052)"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "local NAT64 (RFC 8215)"},
	{netip.MustParsePrefix("100::/64"), "discard (RFC 6666)"},
	{netip.MustParsePrefix("100:0:0:1::/64"), "dummy (RFC 9780)"},
	{netip.MustParsePrefix("2001::/23"), "protocol assignments, Teredo, ORCHID (RFC 2928)"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation (RFC 3849)"},
	{netip.MustParsePrefix("2002::/16"), "6to4 (RFC 3056)"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "AS112 (RFC 7534)"},
	{netip.MustParsePrefix("3fff::/20"), "documentation (RFC 9637)"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing (RFC 9602)"},
	{netip.MustParsePrefix("fc00::/7"), "unique local (RFC 4193)"},
	{netip.MustParsePrefix("fe80::/10"), "link-local (RFC 4291)"},
	{netip.MustParsePrefix("fec0::/10"), "site-local (RFC 3879)"},
	{netip.MustParsePrefix("ff00::/8"), "multicast (RFC 4291)"},
}

// globalUnicast is the range of IPv6 addresses that are assigned for use on the Internet.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// errNotPublic is the error that guard wraps when an address is not public.
var errNotPublic = errors.New("is no public address; the operator can allow it (push_allow)")

// guard returns an error for an address that is not public and not in allow. A URL that a caller
// configures must not reach services that only this host can reach. guard checks the address that is
// about to be dialed, so a later change of the DNS name has no effect.
func guard(address string, allow []netip.Prefix) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	// An IPv4 address in IPv6 form is treated as IPv4. The zone is removed, because netip.Prefix never
	// contains an address with a zone.
	ip := at.Addr().Unmap().WithZone("")
	for _, prefix := range allow {
		if prefix.Contains(ip) {
			return nil
		}
	}
	for _, s := range specials {
		if s.prefix.Contains(ip) {
			return fmt.Errorf("%s (%s) %w", ip, s.name, errNotPublic)
		}
	}
	if ip.Is6() && !globalUnicast.Contains(ip) {
		return fmt.Errorf("%s %w", ip, errNotPublic)
	}
	return nil
}
