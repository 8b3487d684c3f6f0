package webhook

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
)

func TestRestrictedAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"8.8.8.8": "", "1.1.1.1": "", "11.0.0.0": "", "100.63.255.255": "", "100.128.0.0": "", "172.15.255.255": "",
		"172.32.0.0": "", "192.167.255.255": "", "192.169.0.0": "", "198.17.255.255": "", "223.255.255.255": "",
		"2606:4700:4700::1111": "", "2a00:1450:4001:82a::200e": "", "2001:4860:4860::8888": "", "::ffff:8.8.8.8": "",
		"64:ff9b::8.8.8.8": "",

		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "127.0.0.1": "loopback", "127.255.255.254": "loopback",
		"10.0.0.1": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private",
		"169.254.169.254": "link-local", "100.64.0.1": "shared by a carrier", "100.127.255.255": "shared by a carrier",
		"192.0.0.8": "reserved", "192.0.2.1": "for documentation", "198.18.0.1": "for benchmarks", "198.19.255.255": "for benchmarks",
		"224.0.0.1": "multicast", "239.255.255.255": "multicast", "240.0.0.1": "reserved", "255.255.255.255": "reserved",

		"::": "unspecified", "::1": "loopback", "fe80::1": "link-local", "2606::1%eth0": "link-local", "fec0::1": "site-local",
		"fc00::1": "private", "fd12:3456::1": "private", "ff02::1": "multicast", "2001:db8::1": "for documentation",
		"2001::1": "reserved for protocols", "2002:7f00:1::": "6to4", "3fff::1": "for documentation",
		"::ffff:127.0.0.1": "loopback", "::ffff:10.0.0.1": "private", "::127.0.0.1": "reserved", "64:ff9b::127.0.0.1": "loopback",
		"64:ff9b::a9fe:a9fe": "link-local", "64:ff9b:1::1": "reserved", "100::1": "reserved", "4000::1": "reserved",
		"5f00::1": "reserved",
	} {
		require.Equal(t, want, restricted(netip.MustParseAddr(address)), address)
	}
}

func TestTargetsThatAreNoWebhook(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"":                              "the key url is missing",
		"://":                           "holds no URL",
		"https://exa mple.com/":         "holds no URL",
		"ftp://example.com/":            "neither http nor https",
		"example.com/hook":              "neither http nor https",
		"https:":                        "has no host",
		"https:///hook":                 "has no host",
		"https:example.com":             "has no host",
		"https://:443/hook":             "has no host",
		"https://me:t0ken@example.com/": "has user information",
		"https://t0ken@example.com/":    "has user information",
		"https://example.com/#t0ken":    "has a fragment",
		"https://example.com/#":         "has a fragment",
		"http://localhost:9000/":        "allow_private = true",
		"http://LocalHost./":            "allow_private = true",
		"http://a.localhost/":           "allow_private = true",
		"http://127.0.0.1/?key=t0ken":   "loopback",
		"http://[::1]:80/":              "loopback",
		"http://[::ffff:10.0.0.1]/":     "private",
		"http://169.254.169.254/latest": "link-local",
		"http://[fe80::1%25eth0]/":      "link-local",
	} {
		sink, err := NewSink(Options{URL: url})
		require.ErrorIs(t, err, ports.ErrInvalidConfig, url)
		require.Nil(t, sink, url)
		require.ErrorContains(t, err, says, url)
		require.NotContains(t, err.Error(), "t0ken", url)
	}
	for _, url := range []string{"https://example.com", "HTTPS://example.com:8443/a/b?c=d", "http://8.8.8.8/", "http://[2606:4700:4700::1111]/"} {
		_, err := NewSink(Options{URL: url})
		require.NoError(t, err, url)
	}
}
