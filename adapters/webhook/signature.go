package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stowage-go/stowage/ports"
)

// DefaultTolerance is how far the time of a request may lie from now, in either direction.
const DefaultTolerance = 5 * time.Minute

const (
	secretPrefix   = "whsec_"
	minSecretBytes = 24
	maxSecretBytes = 64
	maxSecrets     = 10

	signatureVersion = "v1"

	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// Secrets are what requests are signed with, the newest first. They never show in what fmt, slog or
// encoding/json make of them.
type Secrets []secret

// secret keeps its bytes from encoders.
type secret struct{ key []byte }

// ParseSecrets takes one secret, or a list of up to 10 with white space between them: while secrets are
// changed, the old one goes on working beside the new one. A secret is "whsec_" and the base64 of 24 to
// 64 random bytes. INVALID_CONFIG says which one of the list is wrong, and never quotes it.
func ParseSecrets(text string) (Secrets, error) {
	const op = "webhook.secret"
	fields := strings.Fields(text)
	if len(fields) == 0 || len(fields) > maxSecrets {
		return nil, ports.Errorf(ports.CodeInvalidConfig, op, "there are %d secrets: give 1 to %d, with white space between them", len(fields), maxSecrets)
	}
	secrets := make(Secrets, 0, len(fields))
	for i, field := range fields {
		encoded, ok := strings.CutPrefix(field, secretPrefix)
		key, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if !ok || err != nil || len(key) < minSecretBytes || len(key) > maxSecretBytes {
			return nil, ports.Errorf(ports.CodeInvalidConfig, op, "secret %d of %d has another form: write %s and the base64 of %d to %d random bytes, as in `echo %s$(openssl rand -base64 32)`",
				i+1, len(fields), secretPrefix, minSecretBytes, maxSecretBytes, secretPrefix)
		}
		secrets = append(secrets, secret{key})
	}
	return secrets, nil
}

// String says how many there are.
func (s Secrets) String() string { return fmt.Sprintf("%d secrets (hidden)", len(s)) }

// GoString is String, for the verb %#v.
func (s Secrets) GoString() string { return s.String() }

// LogValue is String, for slog.
func (s Secrets) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Sign makes the header webhook-signature of a request: one signature for each secret.
func (s Secrets) Sign(id string, at time.Time, body []byte) string {
	signatures := make([]string, 0, len(s))
	for _, secret := range s {
		signatures = append(signatures, signatureVersion+","+base64.StdEncoding.EncodeToString(secret.mac(id, at, body)))
	}
	return strings.Join(signatures, " ")
}

func (s secret) mac(id string, at time.Time, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// Verify checks that a request was made by somebody who has one of the secrets, and lately: its time is
// at most tolerance from now, either way ([DefaultTolerance] where that is 0). Whatever does not hold is
// AUTHENTICATION_FAILED. That the request did not come before is for the receiver to see to, by its id.
func Verify(header http.Header, body []byte, secrets Secrets, now time.Time, tolerance time.Duration) error {
	const op = "webhook.verify"
	refuse := func(format string, args ...any) error {
		return ports.Errorf(ports.CodeAuthenticationFailed, op, format, args...)
	}
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	id, at, err := identity(header)
	if err != nil {
		return refuse("the request is not signed: %w", err)
	}
	if age := now.Sub(at); age > tolerance || age < -tolerance {
		return refuse("the request was made at another time: webhook-timestamp is %v away, and at most %v are allowed; look at the clocks of both machines", age.Abs().Round(time.Second), tolerance)
	}
	// Once for each secret, before anything is known of who asks: a header has room for very many
	// signatures, and a body is large.
	expected := make([][]byte, 0, len(secrets))
	for _, secret := range secrets {
		expected = append(expected, secret.mac(id, at, body))
	}
	for _, list := range header.Values(headerSignature) {
		for field := range strings.FieldsSeq(list) {
			version, encoded, _ := strings.Cut(field, ",")
			if version != signatureVersion {
				continue
			}
			given, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				continue
			}
			for _, mac := range expected {
				if hmac.Equal(given, mac) {
					return nil
				}
			}
		}
	}
	return refuse("no signature of the header webhook-signature is one of the body by a known secret")
}

// identity takes the id and the time out of the headers.
func identity(header http.Header) (string, time.Time, error) {
	ids, times := header.Values(headerID), header.Values(headerTimestamp)
	if len(ids) != 1 || ids[0] == "" {
		return "", time.Time{}, errors.New("the header webhook-id is missing")
	}
	if len(times) != 1 {
		return "", time.Time{}, errors.New("the header webhook-timestamp is missing")
	}
	seconds, err := strconv.ParseInt(times[0], 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != times[0] || seconds < 0 || seconds > maxSeconds {
		return "", time.Time{}, errors.New("the header webhook-timestamp is no number of seconds since the epoch")
	}
	return ids[0], time.Unix(seconds, 0), nil
}

// maxSeconds is the last second of the year 9999, up to which times can be told apart and written down.
const maxSeconds = 253402300799
