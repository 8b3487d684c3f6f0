package ports_test

import (
	"encoding/base64"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func millis(n int64) *int64 { return new(n) }

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func decodeVersion(key string, version types.KvVersion) (*ports.VersionToken, error) {
	return ports.CheckDelete("kv.delete", key, types.IfVersion(version))
}

func TestVersionsHaveTheFormOfTheOriginal(t *testing.T) {
	t.Parallel()
	const backend = "0123456789abcdef0123456789abcdef"
	for _, tc := range []struct {
		expires *int64
		want    string
	}{
		{nil, `{"format":1,"key":"user:1","backendVersion":"` + backend + `","expiresAtMillis":null}`},
		{millis(1700000000000), `{"format":1,"key":"user:1","backendVersion":"` + backend + `","expiresAtMillis":1700000000000}`},
	} {
		got := ports.EncodeVersion("user:1", ports.VersionToken{Backend: backend, ExpiresAtMillis: tc.expires})
		if string(got) != encode(tc.want) {
			t.Errorf("got %s, want %s in base64url without padding", got, tc.want)
		}
	}
}

func TestVersionsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, want := range []ports.VersionToken{
		{Backend: "v"},
		{Backend: ""},
		{Backend: `<&> " \ é 😀`, ExpiresAtMillis: millis(0)},
		{Backend: "v", ExpiresAtMillis: millis(math.MaxInt64)},
		{Backend: "v", ExpiresAtMillis: millis(math.MinInt64)},
	} {
		got, err := decodeVersion("k", ports.EncodeVersion("k", want))
		if err != nil {
			t.Errorf("%+v: %v", want, err)
			continue
		}
		sameExpiry := (got.ExpiresAtMillis == nil) == (want.ExpiresAtMillis == nil) &&
			(got.ExpiresAtMillis == nil || *got.ExpiresAtMillis == *want.ExpiresAtMillis)
		if got.Backend != want.Backend || !sameExpiry {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestVersionsOfTheOriginalAreTakenLeniently(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an unknown member": `{"format":1,"key":"k","backendVersion":"v","expiresAtMillis":null,"later":[1]}`,
		"a missing expiry":  `{"format":1,"key":"k","backendVersion":"v"}`,
		"another order":     `{ "backendVersion":"v", "key":"k", "format":1 }`,
	} {
		got, err := decodeVersion("k", types.KvVersion(encode(text)))
		if err != nil || got.Backend != "v" || got.ExpiresAtMillis != nil {
			t.Errorf("%s: %+v, %v; want version v that never expires", name, got, err)
		}
	}
}

func TestBadVersionsAreInvalidInput(t *testing.T) {
	t.Parallel()
	good := `{"format":1,"key":"k","backendVersion":"v","expiresAtMillis":null}`
	for name, version := range map[string]string{
		"empty":                  "",
		"no base64":              "§",
		"padding":                base64.URLEncoding.EncodeToString([]byte(good + " ")),
		"standard alphabet":      base64.RawStdEncoding.EncodeToString([]byte(`{"format":1,"key":"k","backendVersion":"???>>>"}`)),
		"a line break":           encode(good)[:8] + "\n" + encode(good)[8:],
		"a trailing break":       encode(good) + "\r\n",
		"loose trailing bits":    encode("{}")[:2] + "1", // "{}" ends in 0
		"cut short":              encode(good)[:20],
		"no JSON":                encode("v"),
		"null":                   encode("null"),
		"a list":                 encode("[]"),
		"another format":         encode(`{"format":2,"key":"k","backendVersion":"v","expiresAtMillis":null}`),
		"no format":              encode(`{"key":"k","backendVersion":"v","expiresAtMillis":null}`),
		"a text format":          encode(`{"format":"1","key":"k","backendVersion":"v","expiresAtMillis":null}`),
		"another key":            encode(`{"format":1,"key":"K","backendVersion":"v","expiresAtMillis":null}`),
		"no key":                 encode(`{"format":1,"backendVersion":"v","expiresAtMillis":null}`),
		"no version":             encode(`{"format":1,"key":"k","expiresAtMillis":null}`),
		"a null version":         encode(`{"format":1,"key":"k","backendVersion":null,"expiresAtMillis":null}`),
		"a fraction of a millis": encode(`{"format":1,"key":"k","backendVersion":"v","expiresAtMillis":1.5}`),
		"a case variant":         encode(`{"format":1,"Key":"k","backendVersion":"v","expiresAtMillis":null}`),
		"a duplicate":            encode(`{"format":1,"key":"x","key":"k","backendVersion":"v","expiresAtMillis":null}`),
		"a trailing value":       encode(good + "{}"),
		"a cursor":               string(ports.EncodeCursor("k", "k1")),
	} {
		if got, err := decodeVersion("k", types.KvVersion(version)); !errors.Is(err, ports.ErrInvalidInput) {
			t.Errorf("%s: %+v, %v; want INVALID_INPUT", name, got, err)
		}
		_, err := ports.CheckPut("kv.put", "k", nil, types.PutOptions{If: types.IfVersion(types.KvVersion(version))}, time.UnixMilli(0))
		if !errors.Is(err, ports.ErrInvalidInput) {
			t.Errorf("%s, in a put: %v; want INVALID_INPUT", name, err)
		}
	}
}

// A token carries no signature, so that it works with the original; but no other spelling of it is
// the same token.
func TestNoChangedByteOfAVersionIsTheSameVersion(t *testing.T) {
	t.Parallel()
	want := ports.VersionToken{Backend: "0123456789abcdef", ExpiresAtMillis: millis(1700000000000)}
	version := ports.EncodeVersion("user:1", want)
	for i := range len(version) {
		for c := range 256 {
			changed := []byte(version)
			if changed[i] == byte(c) {
				continue
			}
			changed[i] = byte(c)
			got, err := decodeVersion("user:1", types.KvVersion(changed))
			if err == nil && got.Backend == want.Backend && got.ExpiresAtMillis != nil && *got.ExpiresAtMillis == *want.ExpiresAtMillis {
				t.Errorf("byte %d as %q: taken as the same version", i, byte(c))
			}
			if err != nil && !errors.Is(err, ports.ErrInvalidInput) {
				t.Errorf("byte %d as %q: %v, want INVALID_INPUT", i, byte(c), err)
			}
		}
	}
}

func TestVersionTokenExpired(t *testing.T) {
	t.Parallel()
	if (ports.VersionToken{}).Expired(math.MaxInt64) {
		t.Error("a token without expiry is expired")
	}
	token := ports.VersionToken{ExpiresAtMillis: millis(1000)}
	for now, want := range map[int64]bool{999: false, 1000: true, 1001: true} {
		if got := token.Expired(now); got != want {
			t.Errorf("at %d: %v, want %v", now, got, want)
		}
	}
}

func TestCursorsHaveTheFormOfTheOriginal(t *testing.T) {
	t.Parallel()
	if got, want := string(ports.EncodeCursor("user:", "user:7")), encode(`{"version":1,"prefix":"user:","last_key":"user:7"}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, last := range []string{"user:", "user:7", "user:" + strings.Repeat("z", ports.MaxKeyBytes-5)} {
		check, err := ports.CheckScan("kv.scan", "user:", types.ScanOptions{Cursor: ports.EncodeCursor("user:", last)})
		if err != nil || check.After != last {
			t.Errorf("a cursor after %q: %+v, %v", last, check, err)
		}
	}
	lenient := types.KvCursor(encode(`{"last_key":"user:7","later":true,"prefix":"user:","version":1}`))
	if check, err := ports.CheckScan("kv.scan", "user:", types.ScanOptions{Cursor: lenient}); err != nil || check.After != "user:7" {
		t.Errorf("a cursor with an unknown member: %+v, %v", check, err)
	}
}

func TestBadCursorsAreInvalidInput(t *testing.T) {
	t.Parallel()
	good := ports.EncodeCursor("user:", "user:7")
	for name, cursor := range map[string]types.KvCursor{
		"no base64":         "???",
		"cut short":         good[:10],
		"a line break":      good + "\n",
		"no JSON":           types.KvCursor(encode("user:7")),
		"another version":   types.KvCursor(encode(`{"version":2,"prefix":"user:","last_key":"user:7"}`)),
		"another prefix":    ports.EncodeCursor("order:", "order:7"),
		"a longer prefix":   ports.EncodeCursor("user:7", "user:7"),
		"a shorter prefix":  ports.EncodeCursor("user", "user:7"),
		"a key outside":     ports.EncodeCursor("user:", "usez"),
		"no last key":       types.KvCursor(encode(`{"version":1,"prefix":"user:"}`)),
		"an impossible key": ports.EncodeCursor("user:", "user:/"),
		"a camel-case name": types.KvCursor(encode(`{"version":1,"prefix":"user:","lastKey":"user:7"}`)),
		"a version token":   types.KvCursor(ports.EncodeVersion("user:", ports.VersionToken{Backend: "v"})),
	} {
		check, err := ports.CheckScan("kv.scan", "user:", types.ScanOptions{Cursor: cursor})
		if !errors.Is(err, ports.ErrInvalidInput) || check != (ports.ScanCheck{}) {
			t.Errorf("%s: %+v, %v; want INVALID_INPUT", name, check, err)
		}
	}
}

func FuzzVersions(f *testing.F) {
	f.Add("k", string(ports.EncodeVersion("k", ports.VersionToken{Backend: "v"})))
	f.Add("user:1", string(ports.EncodeVersion("user:1", ports.VersionToken{Backend: "<&>", ExpiresAtMillis: millis(5)})))
	f.Add("k", "e30")
	f.Add("k", encode(`{"format":1,"key":"k","backendVersion":"v","x":1}`))
	f.Fuzz(func(t *testing.T, key, version string) {
		token, err := decodeVersion(key, types.KvVersion(version))
		if err != nil {
			if !errors.Is(err, ports.ErrInvalidInput) {
				t.Fatalf("%v, want INVALID_INPUT", err)
			}
			return
		}
		again, err := decodeVersion(key, ports.EncodeVersion(key, *token))
		if err != nil || again.Backend != token.Backend {
			t.Fatalf("%+v comes back as %+v, %v", token, again, err)
		}
	})
}

func FuzzCursors(f *testing.F) {
	f.Add("user:", string(ports.EncodeCursor("user:", "user:7")))
	f.Add("a", "e30")
	f.Fuzz(func(t *testing.T, prefix, cursor string) {
		check, err := ports.CheckScan("kv.scan", prefix, types.ScanOptions{Cursor: types.KvCursor(cursor)})
		if err != nil {
			if !errors.Is(err, ports.ErrInvalidInput) {
				t.Fatalf("%v, want INVALID_INPUT", err)
			}
			return
		}
		if cursor != "" && !strings.HasPrefix(check.After, prefix) {
			t.Fatalf("a scan of %q continues after %q", prefix, check.After)
		}
	})
}
