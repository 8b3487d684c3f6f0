package kvtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// versionToken is a version as the original implementation writes it.
type versionToken struct {
	Format          int    `json:"format"`
	Key             string `json:"key"`
	BackendVersion  string `json:"backendVersion"`
	ExpiresAtMillis *int64 `json:"expiresAtMillis"`
}

func (f *fix) decode(token string) string {
	f.Helper()
	text, err := base64.RawURLEncoding.Strict().DecodeString(token)
	require.NoError(f, err, "a token is base64url without padding")
	return string(text)
}

func (f *fix) decodeVersion(v types.KvVersion) versionToken {
	f.Helper()
	var token versionToken
	require.NoError(f, json.Unmarshal([]byte(f.decode(string(v))), &token))
	return token
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// garbage is no token of any kind, under any key.
func garbage() []string {
	return []string{
		"x", "!", " ", "\x00", "null", "0", "{}", strings.Repeat("A", 5000), "ключ",
		encode("null"), encode("{}"), encode("[]"), encode(`"text"`), encode("1"), encode("{"),
		encode("\xff\xfe"), encode(`{"format":1}`), encode(`{"version":1}`),
	}
}

var tokenCases = []testCase{
	{name: "a version has the form of the original implementation", moves: true, run: func(f *fix) {
		for _, ttl := range []time.Duration{0, time.Minute} {
			v := f.putTTL("some:key", "v", ttl)
			token := f.decodeVersion(v)
			expires := "null"
			if ttl > 0 {
				expires = fmt.Sprint(f.clock.Now().Add(ttl).UnixMilli())
			}
			want := fmt.Sprintf(`{"format":1,"key":"some:key","backendVersion":%q,"expiresAtMillis":%s}`, token.BackendVersion, expires)
			require.Equal(f, want, f.decode(string(v)))
		}
	}},
	{name: "a version from get, put or scan is the same", run: func(f *fix) {
		fromPut := f.put("k", "1")
		require.Equal(f, fromPut, f.get("k").Version)
		fromScan := f.scan("k", 0, "").Entries[0].Version
		require.Equal(f, fromPut, fromScan)
		f.putWith("k", "2", types.PutOptions{If: types.IfVersion(fromScan)})
		f.delete("k", types.IfVersion(f.scan("k", 0, "").Entries[0].Version), true)
	}},
	{name: "a version with members that are unknown is accepted", run: func(f *fix) {
		token := f.decodeVersion(f.put("k", "1"))
		f.putWith("k", "2", types.PutOptions{If: types.IfVersion(types.KvVersion(encode(fmt.Sprintf(
			`{"shard":{"id":[1,2]},"format":1,"key":"k","backendVersion":%q,"expiresAtMillis":null,"note":"of a later release"}`, token.BackendVersion))))})
		f.wantValue("k", "2")
	}},
	{name: "a version without an expiry means never", run: func(f *fix) {
		token := f.decodeVersion(f.put("k", "1"))
		f.putWith("k", "2", types.PutOptions{If: types.IfVersion(types.KvVersion(encode(fmt.Sprintf(
			`{"format":1,"key":"k","backendVersion":%q}`, token.BackendVersion))))})
		f.wantValue("k", "2")
	}},
	{name: "a version whose own expiry has passed loses", moves: true, run: func(f *fix) {
		token := f.decodeVersion(f.put("k", "1"))
		passed := f.clock.Now().UnixMilli()
		version := types.KvVersion(encode(fmt.Sprintf(
			`{"format":1,"key":"k","backendVersion":%q,"expiresAtMillis":%d}`, token.BackendVersion, passed)))
		f.lose("k", types.IfVersion(version))
		f.delete("k", types.IfVersion(version), false)
		f.wantValue("k", "1")
	}},
	{name: "a version of another key is refused", run: func(f *fix) {
		foreign := f.put("other", "v")
		f.put("k", "v")
		for _, key := range []string{"k", "absent", "othe", "Other"} {
			f.wantVersionRefused(key, foreign)
		}
		f.wantValue("k", "v")
		f.wantAbsent("absent")
		f.wantValue("other", "v")
	}},
	{name: "a malformed version is refused, also for a missing key", run: func(f *fix) {
		v := string(f.put("k", "v"))
		bad := append(garbage(), "", v+"=", v+"A", v[1:], v[:len(v)-2], v+v, " "+v, v+"\n",
			base64.StdEncoding.EncodeToString([]byte(f.decode(v)))+"==",
			encode(strings.Replace(f.decode(v), `"format":1`, `"format":2`, 1)),
			encode(strings.Replace(f.decode(v), `"format":1`, `"format":"1"`, 1)),
			encode(strings.Replace(f.decode(v), `"format":1,`, ``, 1)),
			encode(strings.Replace(f.decode(v), `"key"`, `"Key"`, 1)),
			encode(f.decode(v)+f.decode(v)),
			string(types.KvVersion(encode(`{"version":1,"prefix":"k","last_key":"k"}`))),
		)
		for _, version := range bad {
			f.wantVersionRefused("k", types.KvVersion(version))
		}
		f.wantVersionRefused("missing", "x")
		f.wantValue("k", "v")
		f.delete("k", types.IfVersion(types.KvVersion(v)), true)
	}},
	{name: "a version with any one character changed is never applied", run: func(f *fix) {
		v := string(f.put("k", "v"))
		token := f.decodeVersion(types.KvVersion(v))
		for i := range v {
			flipped := []byte(v)
			flipped[i] = 'A'
			if v[i] == 'A' {
				flipped[i] = 'B'
			}
			if same(string(flipped), token) {
				continue // the change is in a member that nobody reads any more
			}
			version := types.KvVersion(flipped)
			res, err := f.kv.Put(f.ctx, "k", []byte("forged"), types.PutOptions{If: types.IfVersion(version)})
			if err != nil {
				f.wantInvalid(err, "character %d changed", i)
			}
			require.False(f, res.Applied, "put with character %d of the version changed", i)
			ok, err := f.kv.Delete(f.ctx, "k", types.IfVersion(version))
			if err != nil {
				f.wantInvalid(err, "character %d changed", i)
			}
			require.False(f, ok, "delete with character %d of the version changed", i)
		}
		f.wantValue("k", "v")
		f.delete("k", types.IfVersion(types.KvVersion(v)), true)
	}},
}

// same reports whether a changed version still says what the original does. A token carries no
// checksum and unknown members pass, so that a change of a member's name can come to that.
func same(version string, want versionToken) bool {
	text, err := base64.RawURLEncoding.Strict().DecodeString(version)
	if err != nil {
		return false
	}
	var members map[string]json.RawMessage
	var got versionToken
	if json.Unmarshal(text, &members) != nil || json.Unmarshal(text, &got) != nil {
		return false
	}
	for _, name := range []string{"format", "key", "backendVersion"} {
		if _, ok := members[name]; !ok {
			return false
		}
	}
	return got.Format == want.Format && got.Key == want.Key && got.BackendVersion == want.BackendVersion && got.ExpiresAtMillis == nil
}

func (f *fix) wantVersionRefused(key string, v types.KvVersion) {
	f.Helper()
	_, err := f.kv.Put(f.ctx, key, []byte("new"), types.PutOptions{If: types.IfVersion(v)})
	f.wantInvalid(err, "put of %q if version %q", key, v)
	_, err = f.kv.Delete(f.ctx, key, types.IfVersion(v))
	f.wantInvalid(err, "delete of %q if version %q", key, v)
}
