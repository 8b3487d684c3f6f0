package ports

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stowage-go/stowage/types"
)

// Limits of inputs. Every adapter refuses the same, because every adapter asks the functions below
// before it touches anything.
const (
	MaxKeyBytes     = 512
	MaxValueBytes   = 24_576
	MaxScanLimit    = 1000
	MaxPayloadBytes = 65_536 // as stored
	MaxBatch        = 10
	MaxQueueIDBytes = 128

	DefaultLease       = 30 * time.Second
	MinLease           = time.Second
	MaxLease           = 12 * time.Hour
	MaxDelay           = 12 * time.Hour
	MaxWait            = 20 * time.Second
	MaxRotationOverlap = 7 * 24 * time.Hour
)

func invalid(op, format string, args ...any) error {
	return Errorf(CodeInvalidInput, op, format, args...)
}

// CheckKey checks a key: 1 to 512 bytes of A-Z a-z 0-9 - _ : and dot (R073).
func CheckKey(op, key string) error { return checkName(op, "key", key) }

// CheckPrefix checks the prefix of a scan, which follows the rules of a key.
func CheckPrefix(op, prefix string) error { return checkName(op, "prefix", prefix) }

func checkName(op, what, name string) error {
	if name == "" {
		return invalid(op, "the %s is empty: give 1 to %d bytes", what, MaxKeyBytes)
	}
	if len(name) > MaxKeyBytes {
		return invalid(op, "the %s has %d bytes: at most %d are allowed", what, len(name), MaxKeyBytes)
	}
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != ':' && c != '.' {
			return invalid(op, "the %s %q has the byte %s at offset %d: use A-Z a-z 0-9 - _ : and dot", what, name, quoteByte(c), i)
		}
	}
	return nil
}

// quoteByte names a byte: as a character if it is one by itself.
func quoteByte(c byte) string {
	if c < utf8.RuneSelf {
		return strconv.QuoteRune(rune(c))
	}
	return fmt.Sprintf("0x%02x", c)
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// PutCheck is a put that was found good.
type PutCheck struct {
	// ExpiresAt is in milliseconds since the epoch; nil means never.
	ExpiresAt *int64
	// Version is the decoded token of a conditional put, nil otherwise.
	Version *VersionToken
}

// CheckPut checks a put at the time now and works out its expiry and version. The key is checked
// first, then the value, the TTL, the condition.
func CheckPut(op, key string, value []byte, opts types.PutOptions, now time.Time) (PutCheck, error) {
	if err := CheckKey(op, key); err != nil {
		return PutCheck{}, err
	}
	if len(value) > MaxValueBytes {
		return PutCheck{}, invalid(op, "the value of %q has %d bytes: at most %d are allowed", key, len(value), MaxValueBytes)
	}
	if opts.TTL < 0 {
		return PutCheck{}, invalid(op, "the TTL of %q is %v: give one above 0, or none", key, opts.TTL)
	}
	var check PutCheck
	if opts.TTL > 0 {
		at := expiry(now, opts.TTL)
		check.ExpiresAt = &at
	}
	version, err := checkVersion(op, key, opts.If)
	if err != nil {
		return PutCheck{}, err
	}
	check.Version = version
	return check, nil
}

// expiry is the millisecond of now plus the TTL, which is rounded up to a millisecond; it saturates.
func expiry(now time.Time, ttl time.Duration) int64 {
	millis := int64(ttl / time.Millisecond)
	if ttl%time.Millisecond != 0 {
		millis++
	}
	if nowMillis := now.UnixMilli(); nowMillis <= math.MaxInt64-millis {
		return nowMillis + millis
	}
	return math.MaxInt64
}

// CheckDelete checks a delete and decodes its version, which is nil for an unconditional one.
func CheckDelete(op, key string, cond types.Condition) (*VersionToken, error) {
	if err := CheckKey(op, key); err != nil {
		return nil, err
	}
	if cond.Absent() {
		return nil, invalid(op, "a delete of %q if absent makes no sense: use always, or a version", key)
	}
	return checkVersion(op, key, cond)
}

func checkVersion(op, key string, cond types.Condition) (*VersionToken, error) {
	version, conditional := cond.Version()
	if !conditional {
		return nil, nil
	}
	token, err := decodeVersion(op, key, version)
	if err != nil {
		return nil, err
	}
	return &token, nil
}

// ScanCheck is a scan that was found good.
type ScanCheck struct {
	Limit int
	After string // the last key of the page before, empty for the first page
}

// CheckScan checks a scan and decodes its cursor.
func CheckScan(op, prefix string, opts types.ScanOptions) (ScanCheck, error) {
	if err := CheckPrefix(op, prefix); err != nil {
		return ScanCheck{}, err
	}
	check := ScanCheck{Limit: opts.Limit}
	if check.Limit == 0 {
		check.Limit = MaxScanLimit
	}
	if check.Limit < 0 || check.Limit > MaxScanLimit {
		return ScanCheck{}, invalid(op, "the limit is %d: give 1 to %d", opts.Limit, MaxScanLimit)
	}
	if opts.Cursor == "" {
		return check, nil
	}
	after, err := decodeCursor(op, prefix, opts.Cursor)
	if err != nil {
		return ScanCheck{}, err
	}
	check.After = after
	return check, nil
}

// CheckPayload checks a payload and returns it as it is stored: JSON compacted, text as it is.
func CheckPayload(op string, p types.Payload) (types.Payload, error) {
	switch p.Type {
	case types.PayloadJSON:
		compact, err := CompactJSON(p.Data)
		if err != nil {
			return types.Payload{}, invalid(op, "the payload is not valid JSON: %w", err)
		}
		p.Data = compact
	case types.PayloadText:
		if !utf8.ValidString(p.Data) {
			return types.Payload{}, invalid(op, "the text payload is not valid UTF-8")
		}
	default:
		return types.Payload{}, invalid(op, "the payload type is %q: use %q or %q", truncate(string(p.Type)), types.PayloadJSON, types.PayloadText)
	}
	if len(p.Data) > MaxPayloadBytes {
		return types.Payload{}, invalid(op, "the payload has %d bytes as stored: at most %d are allowed", len(p.Data), MaxPayloadBytes)
	}
	return p, nil
}

// CheckDelay checks the delay of a send or a nack and returns it in whole milliseconds, rounded up.
func CheckDelay(op string, delay time.Duration) (int64, error) {
	if delay < 0 || delay > MaxDelay {
		return 0, invalid(op, "the delay is %v: give 0 to %v", delay, MaxDelay)
	}
	return int64((delay + time.Millisecond - 1) / time.Millisecond), nil
}

// CheckLease checks a lease and returns it in whole milliseconds, rounded up; zero means the default.
func CheckLease(op string, lease time.Duration) (int64, error) {
	if lease == 0 {
		lease = DefaultLease
	}
	if lease < MinLease || lease > MaxLease {
		return 0, invalid(op, "the lease is %v: give %v to %v", lease, MinLease, MaxLease)
	}
	return int64((lease + time.Millisecond - 1) / time.Millisecond), nil
}

// ReceiveCheck is a receive that was found good.
type ReceiveCheck struct {
	Max         int
	LeaseMillis int64
	Wait        time.Duration
}

// CheckReceive checks the options of a receive and fills in their defaults (R108).
func CheckReceive(op string, opts types.ReceiveOptions) (ReceiveCheck, error) {
	check := ReceiveCheck{Max: opts.Max, Wait: opts.Wait}
	if check.Max == 0 {
		check.Max = 1
	}
	if err := checkCount(op, "number of messages", check.Max); err != nil {
		return ReceiveCheck{}, err
	}
	if opts.Wait < 0 || opts.Wait > MaxWait {
		return ReceiveCheck{}, invalid(op, "the wait is %v: give 0 to %v", opts.Wait, MaxWait)
	}
	lease, err := CheckLease(op, opts.Lease)
	if err != nil {
		return ReceiveCheck{}, err
	}
	check.LeaseMillis = lease
	return check, nil
}

// CheckPeek checks the options of a peek and returns its count.
func CheckPeek(op string, opts types.PeekOptions) (int, error) {
	if opts.Max == 0 {
		return MaxBatch, nil
	}
	if err := checkCount(op, "number of messages", opts.Max); err != nil {
		return 0, err
	}
	return opts.Max, nil
}

// CheckBatch checks the size of a batch (R138).
func CheckBatch(op string, n int) error { return checkCount(op, "size of the batch", n) }

// CheckBulk checks the size of a bulk: 1 to 1000.
func CheckBulk(op string, n int) error {
	if n < 1 || n > MaxBulk {
		return invalid(op, "the size of the bulk is %d: give 1 to %d", n, MaxBulk)
	}
	return nil
}

func checkCount(op, what string, n int) error {
	if n < 1 || n > MaxBatch {
		return invalid(op, "the %s is %d: give 1 to %d", what, n, MaxBatch)
	}
	return nil
}

// CheckOverlap checks the overlap of a token rotation.
func CheckOverlap(op string, overlap time.Duration) error {
	if overlap < 0 || overlap > MaxRotationOverlap {
		return invalid(op, "the overlap is %v: give 0 to %v", overlap, MaxRotationOverlap)
	}
	return nil
}

// CheckQueueID checks the id of a queue, which is also the name of its directory: 1 to 128 bytes of
// A-Z a-z 0-9 - _ and dot, the first a letter or a digit (R124).
func CheckQueueID(op, id string) error {
	if id == "" || len(id) > MaxQueueIDBytes {
		return invalid(op, "the queue id has %d bytes: give 1 to %d", len(id), MaxQueueIDBytes)
	}
	for i := range len(id) {
		c := id[i]
		if isAlphanumeric(c) || i > 0 && (c == '-' || c == '_' || c == '.') {
			continue
		}
		return invalid(op, "the queue id %q has the byte %s at offset %d: use A-Z a-z 0-9 - _ and dot, and start with a letter or a digit", id, quoteByte(c), i)
	}
	return nil
}

// FormatReceipt makes the handle of a delivery from the id of a row and the UUID of the delivery
// (R097).
func FormatReceipt(id int64, delivery string) string {
	return strconv.FormatInt(id, 10) + ":" + delivery
}

// ParseReceipt splits a handle. It reports false for one that no queue ever issued: only the
// canonical form counts, a decimal id and a lower-case UUID with dashes (R099).
func ParseReceipt(receipt string) (id int64, delivery string, ok bool) {
	head, delivery, found := strings.Cut(receipt, ":")
	if !found || !isUUID(delivery) {
		return 0, "", false
	}
	id, err := strconv.ParseInt(head, 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != head {
		return 0, "", false
	}
	return id, delivery, true
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
				return false
			}
		}
	}
	return true
}
