package ports

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/stowage-go/stowage/types"
)

// VersionToken is what a [types.KvVersion] holds for the adapter that made it.
type VersionToken struct {
	Backend         string // the version that the backend stores
	ExpiresAtMillis *int64 // nil means never
}

type versionWire struct {
	Format          int    `json:"format"`
	Key             string `json:"key"`
	BackendVersion  string `json:"backendVersion"`
	ExpiresAtMillis *int64 `json:"expiresAtMillis"`
}

type cursorWire struct {
	Version int    `json:"version"`
	Prefix  string `json:"prefix"`
	LastKey string `json:"last_key"`
}

const tokenFormat = 1

// EncodeVersion binds a version to its key, in the form of the original implementation, so that
// tokens of either work with the other.
func EncodeVersion(key string, token VersionToken) types.KvVersion {
	return types.KvVersion(encodeToken(versionWire{tokenFormat, key, token.Backend, token.ExpiresAtMillis}))
}

func decodeVersion(op, key string, version types.KvVersion) (VersionToken, error) {
	var wire struct {
		Format          int     `json:"format"`
		Key             string  `json:"key"`
		BackendVersion  *string `json:"backendVersion"` // has to be there; a missing expiry means never
		ExpiresAtMillis *int64  `json:"expiresAtMillis"`
	}
	if err := decodeToken(string(version), &wire); err != nil || wire.BackendVersion == nil {
		return VersionToken{}, invalid(op, "the version for %q is malformed: pass one on as it was read", key)
	}
	if wire.Format != tokenFormat || wire.Key != key {
		return VersionToken{}, invalid(op, "the version is of another key or format, not of %q: pass on the one that was read with this key", key)
	}
	return VersionToken{*wire.BackendVersion, wire.ExpiresAtMillis}, nil
}

// Expired reports whether the token's own expiry has passed at the time now, in milliseconds since
// the epoch: its entry is gone then, whatever the store holds.
func (t VersionToken) Expired(now int64) bool {
	return t.ExpiresAtMillis != nil && *t.ExpiresAtMillis <= now
}

// EncodeCursor makes the cursor that continues a scan of prefix after lastKey.
func EncodeCursor(prefix, lastKey string) types.KvCursor {
	return types.KvCursor(encodeToken(cursorWire{tokenFormat, prefix, lastKey}))
}

func decodeCursor(op, prefix string, cursor types.KvCursor) (string, error) {
	var wire cursorWire
	if err := decodeToken(string(cursor), &wire); err != nil {
		return "", invalid(op, "the cursor is malformed: pass it on as the page before returned it")
	}
	if wire.Version != tokenFormat || wire.Prefix != prefix || !strings.HasPrefix(wire.LastKey, prefix) || CheckKey(op, wire.LastKey) != nil {
		return "", invalid(op, "the cursor is not one of a scan of %q: pass on the one that the page before returned", prefix)
	}
	return wire.LastKey, nil
}

func encodeToken(wire any) string {
	text, err := json.Marshal(wire)
	if err != nil {
		panic("ports: a token of strings and numbers cannot fail to encode: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// decodeToken is strict about the encoding, so that one token has one spelling, and lenient about
// members that it does not know, as the original is.
func decodeToken(token string, wire any) error {
	if strings.ContainsAny(token, "\r\n") {
		return errors.New("a line break stands in a token") // which base64 would pass over
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return err
	}
	return DecodeJSON(text, wire, AllowUnknown)
}
