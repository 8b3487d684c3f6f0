package ports_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// wantVerdict fails the test unless err is nil for a good input and INVALID_INPUT, with the operation
// in front and a permanent class, for a bad one.
func wantVerdict(t *testing.T, what string, err error, good bool) {
	t.Helper()
	if good {
		if err != nil {
			t.Errorf("%s: %v, want no error", what, err)
		}
		return
	}
	if !errors.Is(err, ports.ErrInvalidInput) || ports.IsTransient(err) || !strings.HasPrefix(err.Error(), "op: INVALID_INPUT: ") {
		t.Errorf("%s: %v, want a permanent INVALID_INPUT of the operation", what, err)
	}
}

func TestKeysAndPrefixes(t *testing.T) {
	t.Parallel()
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_:."
	for c := range 256 {
		key := string([]byte{byte(c)})
		good := strings.Contains(allowed, key)
		wantVerdict(t, "key of the byte "+key, ports.CheckKey("op", key), good)
		wantVerdict(t, "prefix of the byte "+key, ports.CheckPrefix("op", "a"+key), good)
	}
	for size, good := range map[int]bool{0: false, 1: true, 511: true, 512: true, 513: false} {
		wantVerdict(t, "size", ports.CheckKey("op", strings.Repeat("k", size)), good)
		wantVerdict(t, "size", ports.CheckPrefix("op", strings.Repeat("k", size)), good)
	}
	if err := ports.CheckKey("op", "a\xffb"); !strings.Contains(err.Error(), "the byte 0xff at offset 1") {
		t.Errorf("%v, want the byte and its offset", err)
	}
}

func TestPutsCheckKeyThenValueThenTTLThenCondition(t *testing.T) {
	t.Parallel()
	huge, badVersion := make([]byte, ports.MaxValueBytes+1), types.IfVersion("?")
	for _, tc := range []struct {
		key, want string
		value     []byte
		opts      types.PutOptions
	}{
		{"/", "the key", huge, types.PutOptions{TTL: -1, If: badVersion}},
		{"k", "the value", huge, types.PutOptions{TTL: -1, If: badVersion}},
		{"k", "the TTL", nil, types.PutOptions{TTL: -1, If: badVersion}},
		{"k", "the version", nil, types.PutOptions{TTL: 1, If: badVersion}},
	} {
		check, err := ports.CheckPut("op", tc.key, tc.value, tc.opts, time.UnixMilli(0))
		wantVerdict(t, tc.want, err, false)
		if !strings.Contains(err.Error(), tc.want) || check != (ports.PutCheck{}) {
			t.Errorf("%+v, %v; want nothing, and an error about %s", check, err, tc.want)
		}
	}
	for size, good := range map[int]bool{0: true, 24_575: true, 24_576: true, 24_577: false} {
		_, err := ports.CheckPut("op", "k", make([]byte, size), types.PutOptions{}, time.UnixMilli(0))
		wantVerdict(t, "value size", err, good)
	}
}

func TestPutsWorkOutTheExpiry(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000).Add(999 * time.Microsecond)
	for _, tc := range []struct {
		now  time.Time
		ttl  time.Duration
		want *int64
	}{
		{now, 0, nil},
		{now, 1, millis(1_000_001)},
		{now, time.Millisecond, millis(1_000_001)},
		{now, time.Millisecond + 1, millis(1_000_002)},
		{now, 1500 * time.Microsecond, millis(1_000_002)},
		{now, time.Hour, millis(4_600_000)},
		{now, math.MaxInt64, millis(1_000_000 + math.MaxInt64/1_000_000 + 1)},
		{time.UnixMilli(math.MaxInt64 - 5), 5 * time.Millisecond, millis(math.MaxInt64)},
		{time.UnixMilli(math.MaxInt64 - 5), 6 * time.Millisecond, millis(math.MaxInt64)},
		{time.UnixMilli(-10), 4 * time.Millisecond, millis(-6)},
	} {
		check, err := ports.CheckPut("op", "k", nil, types.PutOptions{TTL: tc.ttl}, tc.now)
		switch {
		case err != nil:
			t.Errorf("a TTL of %v: %v", tc.ttl, err)
		case (check.ExpiresAt == nil) != (tc.want == nil), tc.want != nil && *check.ExpiresAt != *tc.want:
			t.Errorf("a TTL of %v at %d ms: %v, want %v", tc.ttl, tc.now.UnixMilli(), check.ExpiresAt, tc.want)
		}
	}
	for _, ttl := range []time.Duration{-1, math.MinInt64} {
		_, err := ports.CheckPut("op", "k", nil, types.PutOptions{TTL: ttl}, now)
		wantVerdict(t, "a negative TTL", err, false)
	}
}

func TestPutsAndDeletesDecodeTheirCondition(t *testing.T) {
	t.Parallel()
	version := ports.EncodeVersion("k", ports.VersionToken{Backend: "v"})
	check, err := ports.CheckPut("op", "k", nil, types.PutOptions{If: types.IfVersion(version)}, time.UnixMilli(0))
	if err != nil || check.Version == nil || check.Version.Backend != "v" {
		t.Errorf("a put with a version: %+v, %v", check, err)
	}
	for _, cond := range []types.Condition{types.Always(), types.IfAbsent()} {
		if check, err := ports.CheckPut("op", "k", nil, types.PutOptions{If: cond}, time.UnixMilli(0)); err != nil || check.Version != nil {
			t.Errorf("a put without a version: %+v, %v", check, err)
		}
	}
	if token, err := ports.CheckDelete("op", "k", types.Always()); err != nil || token != nil {
		t.Errorf("an unconditional delete: %+v, %v", token, err)
	}
	if token, err := ports.CheckDelete("op", "k", types.IfVersion(version)); err != nil || token == nil || token.Backend != "v" {
		t.Errorf("a delete with a version: %+v, %v", token, err)
	}
	for name, tc := range map[string]struct {
		key  string
		cond types.Condition
	}{
		"a bad key":            {"", types.Always()},
		"if absent":            {"k", types.IfAbsent()},
		"another key":          {"j", types.IfVersion(version)},
		"an empty version":     {"k", types.IfVersion("")},
		"a bad key, good rest": {"k/", types.IfVersion(version)},
	} {
		_, err := ports.CheckDelete("op", tc.key, tc.cond)
		wantVerdict(t, name, err, false)
	}
}

func TestScanLimits(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{0: 1000, 1: 1, 1000: 1000} {
		check, err := ports.CheckScan("op", "p", types.ScanOptions{Limit: limit})
		if err != nil || check != (ports.ScanCheck{Limit: want}) {
			t.Errorf("limit %d: %+v, %v; want %d from the front", limit, check, err, want)
		}
	}
	for _, limit := range []int{-1, 1001, math.MaxInt, math.MinInt} {
		_, err := ports.CheckScan("op", "p", types.ScanOptions{Limit: limit})
		wantVerdict(t, "limit", err, false)
	}
	_, err := ports.CheckScan("op", "", types.ScanOptions{})
	wantVerdict(t, "an empty prefix", err, false)
}

// A type comes from outside, and may be as long as a request.
func TestALongPayloadTypeIsNotRepeatedInFull(t *testing.T) {
	t.Parallel()
	_, err := ports.CheckPayload("op", types.Payload{Type: types.PayloadType(strings.Repeat("x", 1<<20)), Data: "1"})
	if !errors.Is(err, ports.ErrInvalidInput) || len(err.Error()) > 300 {
		t.Errorf("got an error of %d bytes: %.300v", len(err.Error()), err)
	}
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		in      types.Payload
		want    string
		refused bool
	}{
		{name: "JSON is compacted", in: types.JSON([]byte(` { "b" : 9007199254740993, "a": "<&>" } `)), want: `{"b":9007199254740993,"a":"<&>"}`},
		{name: "text is kept", in: types.Text(" a\x00\n "), want: " a\x00\n "},
		{name: "empty text", in: types.Text(""), want: ""},
		{name: "text of the greatest size", in: types.Text(strings.Repeat("é", ports.MaxPayloadBytes/2)), want: strings.Repeat("é", ports.MaxPayloadBytes/2)},
		{name: "text beyond it", in: types.Text(strings.Repeat("a", ports.MaxPayloadBytes+1)), refused: true},
		{name: "JSON measured as stored", in: types.JSON([]byte(`"` + strings.Repeat("a", ports.MaxPayloadBytes-2) + `"` + strings.Repeat(" ", 5000))), want: `"` + strings.Repeat("a", ports.MaxPayloadBytes-2) + `"`},
		{name: "JSON beyond it", in: types.JSON([]byte(`"` + strings.Repeat("a", ports.MaxPayloadBytes-1) + `"`)), refused: true},
		{name: "text that is not UTF-8", in: types.Text("a\xff"), refused: true},
		{name: "empty JSON", in: types.JSON(nil), refused: true},
		{name: "bad JSON", in: types.JSON([]byte(`{"a":1,"a":2}`)), refused: true},
		{name: "no type", in: types.Payload{Data: "a"}, refused: true},
		{name: "a case variant of a type", in: types.Payload{Type: "JSON", Data: "1"}, refused: true},
	} {
		got, err := ports.CheckPayload("op", tc.in)
		wantVerdict(t, tc.name, err, !tc.refused)
		if err == nil && (got.Data != tc.want || got.Type != tc.in.Type) {
			t.Errorf("%s: got %.80q", tc.name, got.Data)
		}
		if err != nil && got != (types.Payload{}) {
			t.Errorf("%s: a refused payload comes back", tc.name)
		}
	}
}

func TestDurationsAreBoundedAndRoundedUp(t *testing.T) {
	t.Parallel()
	lease := func(d time.Duration) (int64, error) { return ports.CheckLease("op", d) }
	delay := func(d time.Duration) (int64, error) { return ports.CheckDelay("op", d) }
	for _, tc := range []struct {
		name  string
		check func(time.Duration) (int64, error)
		in    time.Duration
		want  int64 // -1 for refused
	}{
		{"delay", delay, 0, 0},
		{"delay", delay, 1, 1},
		{"delay", delay, time.Millisecond, 1},
		{"delay", delay, time.Millisecond + 1, 2},
		{"delay", delay, 12*time.Hour - 1, 43_200_000},
		{"delay", delay, 12 * time.Hour, 43_200_000},
		{"delay", delay, 12*time.Hour + 1, -1},
		{"delay", delay, -1, -1},
		{"delay", delay, math.MaxInt64, -1},
		{"delay", delay, math.MinInt64, -1},
		{"lease", lease, 0, 30_000},
		{"lease", lease, time.Second - 1, -1},
		{"lease", lease, time.Second, 1000},
		{"lease", lease, time.Second + 1, 1001},
		{"lease", lease, 12 * time.Hour, 43_200_000},
		{"lease", lease, 12*time.Hour + 1, -1},
		{"lease", lease, -1, -1},
		{"lease", lease, math.MaxInt64, -1},
		{"lease", lease, math.MinInt64, -1},
	} {
		got, err := tc.check(tc.in)
		wantVerdict(t, tc.name+" of "+tc.in.String(), err, tc.want >= 0)
		if err == nil && got != tc.want {
			t.Errorf("%s of %v: %d ms, want %d", tc.name, tc.in, got, tc.want)
		}
	}
	for overlap, good := range map[time.Duration]bool{0: true, 7 * 24 * time.Hour: true, 7*24*time.Hour + 1: false, -1: false, math.MaxInt64: false} {
		wantVerdict(t, "overlap of "+overlap.String(), ports.CheckOverlap("op", overlap), good)
	}
}

func TestReceiveOptions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   types.ReceiveOptions
		want ports.ReceiveCheck
	}{
		{types.ReceiveOptions{}, ports.ReceiveCheck{Max: 1, LeaseMillis: 30_000}},
		{types.ReceiveOptions{Max: 10, Lease: time.Second, Wait: 20 * time.Second}, ports.ReceiveCheck{Max: 10, LeaseMillis: 1000, Wait: 20 * time.Second}},
	} {
		if got, err := ports.CheckReceive("op", tc.in); err != nil || got != tc.want {
			t.Errorf("%+v: %+v, %v; want %+v", tc.in, got, err, tc.want)
		}
	}
	for _, opts := range []types.ReceiveOptions{
		{Max: -1}, {Max: 11}, {Wait: -1}, {Wait: 20*time.Second + 1}, {Lease: 1}, {Lease: -1}, {Lease: 13 * time.Hour},
	} {
		got, err := ports.CheckReceive("op", opts)
		wantVerdict(t, "receive", err, false)
		if got != (ports.ReceiveCheck{}) {
			t.Errorf("%+v: a refused receive comes back as %+v", opts, got)
		}
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for n, good := range map[int]bool{-1: false, 0: false, 1: true, 1000: true, 1001: false} {
		wantVerdict(t, "bulk", ports.CheckBulk("op", n), good)
	}
	for n, good := range map[int]bool{-1: false, 0: false, 1: true, 10: true, 11: false} {
		wantVerdict(t, "batch", ports.CheckBatch("op", n), good)
		got, err := ports.CheckPeek("op", types.PeekOptions{Max: n})
		want := n
		if n == 0 {
			good, want = true, 10
		}
		wantVerdict(t, "peek", err, good)
		if err == nil && got != want {
			t.Errorf("peek of %d: %d, want %d", n, got, want)
		}
	}
}

func TestQueueIDs(t *testing.T) {
	t.Parallel()
	const anywhere = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for c := range 256 {
		id := string([]byte{byte(c)})
		wantVerdict(t, "first byte "+id, ports.CheckQueueID("op", id), strings.Contains(anywhere, id))
		wantVerdict(t, "second byte "+id, ports.CheckQueueID("op", "a"+id), strings.Contains(anywhere+"-_.", id)) //nolint:gocritic // the id is one byte of the set
	}
	for _, id := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a\x00", "-a", "_a", ".a", "a b", "é", strings.Repeat("a", 129)} {
		wantVerdict(t, id, ports.CheckQueueID("op", id), false)
	}
	for _, id := range []string{"a", "0", "a..b", "orders.v2", "A-_.", strings.Repeat("a", 128)} {
		wantVerdict(t, id, ports.CheckQueueID("op", id), true)
	}
}

const uuid = "01234567-89ab-4def-8123-456789abcdef"

func TestReceiptsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, want := range []int64{1, 42, 0, -7, math.MaxInt64, math.MinInt64} {
		receipt := ports.FormatReceipt(want, uuid)
		id, delivery, ok := ports.ParseReceipt(receipt)
		if id != want || delivery != uuid || !ok {
			t.Errorf("%s: %d, %s, %v", receipt, id, delivery, ok)
		}
	}
	if got := ports.FormatReceipt(7, uuid); got != "7:"+uuid {
		t.Errorf("got %s, want the id, one colon and the UUID", got)
	}
}

func TestOnlyCanonicalReceiptsWereIssued(t *testing.T) {
	t.Parallel()
	for _, receipt := range []string{
		"", "x", "1", ":", "1:", ":" + uuid, "abc:" + uuid, "1:uuid", "1:" + uuid + ":", "1::" + uuid, "1: " + uuid,
		" 1:" + uuid, "1 :" + uuid, "+1:" + uuid, "01:" + uuid, "-0:" + uuid, "0x1:" + uuid, "1_0:" + uuid, "1.0:" + uuid,
		"9223372036854775808:" + uuid, "-9223372036854775809:" + uuid, "١:" + uuid,
		"1:" + strings.ToUpper(uuid), "1:" + strings.ReplaceAll(uuid, "-", ""), "1:{" + uuid + "}", "1:urn:uuid:" + uuid,
		"1:" + uuid + "\n", "1:" + uuid[:35], "1:" + uuid + "0", "1:0123456-789ab-4def-8123-456789abcdef0", "1:" + strings.Replace(uuid, "a", "g", 1),
	} {
		if id, delivery, ok := ports.ParseReceipt(receipt); ok || id != 0 || delivery != "" {
			t.Errorf("%q: %d, %q, %v; want nothing", receipt, id, delivery, ok)
		}
	}
}

func FuzzReceipts(f *testing.F) {
	for _, seed := range []string{"1:" + uuid, "-1:" + uuid, "01:" + uuid, "1:x", ":", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, receipt string) {
		if id, delivery, ok := ports.ParseReceipt(receipt); ok && ports.FormatReceipt(id, delivery) != receipt {
			t.Fatalf("%q was never issued: it would be %q", receipt, ports.FormatReceipt(id, delivery))
		}
	})
}
