package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// block is a range of addresses and what it is for.
type block struct {
	prefix netip.Prefix
	what   string
}

// blocks4 are the ranges of IPv4 that are not of the public internet.
var blocks4 = []block{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared by a carrier"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a relay of 6to4"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
}

// blocks6 are the ranges of IPv6 that are known for what they are. Beside them, only [global6] is of the
// public internet.
var blocks6 = []block{
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("2001::/23"), "reserved for protocols"}, // Teredo among them, which embeds IPv4
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation"},
	{netip.MustParsePrefix("2002::/16"), "6to4"}, // which embeds IPv4
	{netip.MustParsePrefix("3fff::/20"), "for documentation"},
}

var (
	global6 = netip.MustParsePrefix("2000::/3")
	// nat64 is how a network without IPv4 reaches it: the address within decides.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// restricted says why an address is not of the public internet; empty for one that is.
func restricted(address netip.Addr) string {
	if address.Zone() != "" {
		return "link-local"
	}
	address = address.Unmap()
	if nat64.Contains(address) {
		bytes := address.As16()
		address = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	blocks := blocks6
	if address.Is4() {
		blocks = blocks4
	}
	for _, b := range blocks {
		if b.prefix.Contains(address) {
			return b.what
		}
	}
	if address.Is6() && !global6.Contains(address) {
		return "reserved"
	}
	return ""
}

var errNotPublic = errors.New("no address of the public internet")

func notPublic(address, what string) error {
	return fmt.Errorf("it leads to %s, which is %w (%s)", address, errNotPublic, what)
}

// refusePrivate is asked by a dialer for each address that it is about to connect to, names resolved.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return notPublic(address, "of no known form")
	}
	if what := restricted(to.Addr()); what != "" {
		return notPublic(to.Addr().String(), what)
	}
	return nil
}
