package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
)

// The published example of Standard Webhooks, which
//
//	printf '%s.%s.%s' "$id" "$timestamp" "$body" | openssl dgst -sha256 -mac HMAC -macopt hexkey:… -binary | base64
//
// gives as well.
const (
	publishedSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	publishedID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	publishedTimestamp = 1614265330
	publishedBody      = `{"test": 2432232314}`
	publishedSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

// otherSecret is one of 32 bytes.
const otherSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func parse(t *testing.T, text string) Secrets {
	t.Helper()
	secrets, err := ParseSecrets(text)
	require.NoError(t, err)
	return secrets
}

func TestSignaturesAreThoseOfThePublishedExample(t *testing.T) {
	t.Parallel()
	at := time.Unix(publishedTimestamp, 0)
	require.Equal(t, publishedSignature, parse(t, publishedSecret).Sign(publishedID, at, []byte(publishedBody)))

	both := parse(t, otherSecret+" \n"+publishedSecret).Sign(publishedID, at, []byte(publishedBody))
	list := strings.Split(both, " ")
	require.Len(t, list, 2, "one signature for each secret")
	require.Equal(t, publishedSignature, list[1])
	require.NotEqual(t, list[0], list[1])
}

func signed(id string, timestamp any, signature string) http.Header {
	header := http.Header{}
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", fmt.Sprint(timestamp))
	header.Set("Webhook-Signature", signature)
	return header
}

func TestVerify(t *testing.T) {
	t.Parallel()
	secrets, at := parse(t, publishedSecret), time.Unix(publishedTimestamp, 0)
	good := func() http.Header { return signed(publishedID, publishedTimestamp, publishedSignature) }
	with := func(change func(http.Header)) http.Header {
		header := good()
		change(header)
		return header
	}
	for name, c := range map[string]struct {
		header  http.Header
		body    string
		secrets Secrets
		now     time.Time
		says    string // empty: it holds
	}{
		"as published":                    {good(), publishedBody, secrets, at, ""},
		"at the end of the tolerance":     {good(), publishedBody, secrets, at.Add(5 * time.Minute), ""},
		"from a clock ahead":              {good(), publishedBody, secrets, at.Add(-5 * time.Minute), ""},
		"while secrets change":            {good(), publishedBody, parse(t, otherSecret+" "+publishedSecret), at, ""},
		"of several versions":             {signed(publishedID, publishedTimestamp, "v1a,AAAA v2,x "+publishedSignature), publishedBody, secrets, at, ""},
		"later":                           {good(), publishedBody, secrets, at.Add(5*time.Minute + time.Second), "5m1s away"},
		"earlier":                         {good(), publishedBody, secrets, at.Add(-5*time.Minute - time.Second), "5m1s away"},
		"another body":                    {good(), publishedBody + " ", secrets, at, "no signature"},
		"another secret":                  {good(), publishedBody, parse(t, otherSecret), at, "no signature"},
		"no secret":                       {good(), publishedBody, nil, at, "no signature"},
		"another id":                      {signed("msg_1", publishedTimestamp, publishedSignature), publishedBody, secrets, at, "no signature"},
		"another time":                    {signed(publishedID, publishedTimestamp+1, publishedSignature), publishedBody, secrets, at, "no signature"},
		"another version":                 {signed(publishedID, publishedTimestamp, "v2"+publishedSignature[2:]), publishedBody, secrets, at, "no signature"},
		"cut off":                         {signed(publishedID, publishedTimestamp, publishedSignature[:len(publishedSignature)-8]), publishedBody, secrets, at, "no signature"},
		"no base64":                       {signed(publishedID, publishedTimestamp, "v1,%"), publishedBody, secrets, at, "no signature"},
		"without a signature":             {with(func(h http.Header) { h.Del("Webhook-Signature") }), publishedBody, secrets, at, "no signature"},
		"without an id":                   {with(func(h http.Header) { h.Del("Webhook-Id") }), publishedBody, secrets, at, "webhook-id is missing"},
		"without a time":                  {with(func(h http.Header) { h.Del("Webhook-Timestamp") }), publishedBody, secrets, at, "webhook-timestamp is missing"},
		"two times":                       {with(func(h http.Header) { h.Add("Webhook-Timestamp", "1") }), publishedBody, secrets, at, "webhook-timestamp is missing"},
		"a time in another form":          {signed(publishedID, "1614265330.0", publishedSignature), publishedBody, secrets, at, "no number of seconds"},
		"a time before the epoch":         {signed(publishedID, "-1", publishedSignature), publishedBody, secrets, at, "no number of seconds"},
		"a time that overflows a clock":   {signed(publishedID, "9223372036854775807", publishedSignature), publishedBody, secrets, at, "no number of seconds"},
		"a time that only looks the same": {signed(publishedID, "+1614265330", publishedSignature), publishedBody, secrets, at, "no number of seconds"},
	} {
		err := Verify(c.header, []byte(c.body), c.secrets, c.now, 0)
		if c.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, ports.ErrAuthenticationFailed, name)
		require.ErrorContains(t, err, c.says, name)
	}
	require.Error(t, Verify(good(), []byte(publishedBody), secrets, at.Add(2*time.Second), time.Second), "a tolerance of its own")
}

// Nobody has proved anything when signatures are looked at, so that many of them must not cost much: the
// body is hashed once for each secret, not for each signature.
func TestManySignaturesCostNoMoreThanOne(t *testing.T) {
	t.Parallel()
	header := signed(publishedID, publishedTimestamp, strings.Repeat("v1, ", 250_000)) // a megabyte, what a server takes
	began := time.Now()
	err := Verify(header, make([]byte, MaxBodyBytes), parse(t, publishedSecret), time.Unix(publishedTimestamp, 0), 0)
	require.ErrorContains(t, err, "no signature")
	require.Less(t, time.Since(began), 20*time.Second, "it takes milliseconds, or else minutes")
}

func TestParseSecretsRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":              " ",
		"no prefix":            strings.TrimPrefix(publishedSecret, "whsec_"),
		"no base64":            "whsec_%%%%",
		"base64 for URLs":      "whsec_" + strings.Repeat("_", 40),
		"cut off":              publishedSecret[:len(publishedSecret)-1],
		"23 bytes":             "whsec_" + strings.Repeat("AAAA", 7) + "AAA=",
		"65 bytes":             "whsec_" + strings.Repeat("AAAA", 21) + "AAA=",
		"the second of them":   publishedSecret + " whsec_",
		"more than ten":        strings.Repeat(publishedSecret+" ", 11),
		"a comma between them": publishedSecret + "," + otherSecret,
	} {
		secrets, err := ParseSecrets(text)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, name)
		require.Nil(t, secrets, name)
		require.NotContains(t, err.Error(), "MfKQ9r8G", name)
	}
	require.Len(t, parse(t, "whsec_"+strings.Repeat("AAAA", 8)+" whsec_"+strings.Repeat("AAAA", 21)+"AA=="), 2, "24 and 64 bytes")
}

func TestSecretsStayHidden(t *testing.T) {
	t.Parallel()
	secrets := parse(t, otherSecret)
	text, err := json.Marshal(struct{ S Secrets }{secrets})
	require.NoError(t, err)
	var logged strings.Builder
	fixture.Logger(t).Info("secrets", "s", secrets)
	fmt.Fprintf(&logged, "%v %+v %#v %s %v", secrets, secrets, secrets, secrets, []any{secrets})
	for _, shown := range []string{string(text), logged.String()} {
		require.NotContains(t, shown, "AAECAw")
		require.NotContains(t, shown, "[0 1 2")
		require.NotContains(t, shown, "0x1, 0x2")
	}
	require.Contains(t, logged.String(), "1 secrets (hidden)")
}
