package webhook

import (
	"crypto/x509"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stowage-go/stowage/ports"
)

// DefaultTimeout is how long one delivery may take.
const DefaultTimeout = 10 * time.Second

const (
	contentType = "application/json"
	userAgent   = "stowage"

	maxTimeout     = 10 * time.Minute
	maxHeaders     = 64
	maxHeaderBytes = 8 << 10
)

// Options make a sink. URL is required.
type Options struct {
	// URL is where events are POSTed to: http or https, without user information and without a fragment.
	URL string
	// Secrets sign the requests. None: they bear no signature.
	Secrets Secrets
	// Timeout is how long one delivery may take, from looking the name up to the head of the answer,
	// redirects included; up to 10 minutes, zero means 10 seconds.
	Timeout time.Duration
	// Header is sent with each request. What the sink sets or the connection lives by is refused, but
	// for User-Agent.
	Header http.Header
	// AllowPrivate lets the sink connect to addresses that are not of the public internet: loopback,
	// private networks, link-local ones and the like.
	AllowPrivate bool
	// RootCAs are what certificates are verified against; nil means those of the system.
	RootCAs *x509.CertPool
	// Clock tells the time of requests; default ports.SystemClock. Timeout runs on the machine's.
	Clock ports.Clock
}

// target checks the options and returns the parsed URL.
func (o Options) target() (*url.URL, error) {
	target, err := parseTarget(o.URL, o.AllowPrivate)
	if err != nil {
		return nil, err
	}
	if o.Timeout < 0 || o.Timeout > maxTimeout {
		return nil, refuse("the timeout is %v: give one above 0, up to %v, or none for %v", o.Timeout, maxTimeout, DefaultTimeout)
	}
	return target, checkHeader(o.Header)
}

// parseTarget never quotes the URL, whose query may hold a secret.
func parseTarget(text string, allowPrivate bool) (*url.URL, error) {
	const form = `: write it like "https://example.com/hooks/stowage"`
	if text == "" {
		return nil, refuse("the key url is missing" + form)
	}
	target, err := url.Parse(text)
	if err != nil {
		return nil, refuse("the key url holds no URL" + form)
	}
	target.Scheme = strings.ToLower(target.Scheme)
	switch {
	case target.Scheme != "http" && target.Scheme != "https":
		return nil, refuse("the scheme of the url is neither http nor https" + form)
	case target.Opaque != "" || target.Hostname() == "":
		return nil, refuse("the url has no host" + form)
	case target.User != nil:
		return nil, refuse("the url of %s has user information: send it by the key headers, as Authorization", target.Host)
	case target.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, refuse("the url of %s has a fragment, which is never sent: leave it out", target.Host)
	}
	if given := target.Port(); given != "" {
		if n, err := strconv.ParseUint(given, 10, 16); err != nil || n == 0 {
			return nil, refuse("the port of the url of %s is no number from 1 to 65535", target.Hostname())
		}
	}
	if allowPrivate {
		return target, nil
	}
	host := strings.ToLower(strings.TrimSuffix(target.Hostname(), "."))
	reason := ""
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		reason = "loopback"
	} else if address, err := netip.ParseAddr(host); err == nil {
		reason = restricted(address)
	}
	if reason != "" {
		return nil, refuse("the url leads to %s, which is no address of the public internet (%s): set allow_private = true if that is meant", target.Host, reason)
	}
	return target, nil
}

// reservedHeaders are set by the sink, or say how the request travels.
var reservedHeaders = []string{
	"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Keep-Alive",
	"Te", "Traceparent", "Trailer", "Transfer-Encoding", "Upgrade",
}

// checkHeader refuses names and values that cannot be sent. It never quotes a value.
func checkHeader(header http.Header) error {
	if len(header) > maxHeaders {
		return refuse("there are %d headers: give at most %d", len(header), maxHeaders)
	}
	for name, values := range header {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case name == "" || strings.ContainsFunc(name, notToken):
			return refuse("the name %q of a header has another form: use letters, digits and -", name)
		case name != canonical:
			return refuse("the name of the header %q is to be written %q", name, canonical)
		case slices.Contains(reservedHeaders, canonical), strings.HasPrefix(canonical, "Webhook-"), strings.HasPrefix(canonical, "Proxy-"):
			return refuse("the header %s is the sink's own: leave it out", canonical)
		}
		for _, value := range values {
			if len(value) > maxHeaderBytes || strings.ContainsFunc(value, notValue) || strings.TrimSpace(value) != value {
				return refuse("the value of the header %s cannot be sent: give at most %d bytes without control characters, and no white space around them", canonical, maxHeaderBytes)
			}
		}
	}
	return nil
}

// notToken reports whether a character does not belong into a token of HTTP.
func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", r)
}

func notValue(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func refuse(format string, args ...any) error {
	return ports.Errorf(ports.CodeInvalidConfig, "sink.configure", format, args...)
}
